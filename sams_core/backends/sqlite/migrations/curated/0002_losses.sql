-- Who accepted that a ledger replaces one that is gone, and when; meta names the ledger last accepted.
CREATE TABLE losses (ledger TEXT NOT NULL, owner TEXT NOT NULL, date TEXT NOT NULL);
CREATE TRIGGER losses_are_fixed BEFORE UPDATE ON losses
BEGIN SELECT RAISE(ABORT, 'acceptances are not rewritten'); END;
CREATE TRIGGER losses_stay BEFORE DELETE ON losses
BEGIN SELECT RAISE(ABORT, 'acceptances are not deleted'); END;
