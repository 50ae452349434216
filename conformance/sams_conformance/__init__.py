"""Conformance tests that anybody can point at their own storage (C1 to C12) or adapter (A1 to A25)."""

from sams_conformance.a.runner import run_adapter as run_adapter
from sams_conformance.driver import Deployment as Deployment
from sams_conformance.driver import Factory as Factory
from sams_conformance.driver import load_factory as load_factory
from sams_conformance.driver import needs_durable as needs_durable
from sams_conformance.report import Report as Report
from sams_conformance.runner import run as run
