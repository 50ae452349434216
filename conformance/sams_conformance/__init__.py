"""Conformance tests that anybody can point at their own storage: C1 to C12, as data and as text."""

from sams_conformance.driver import Deployment as Deployment
from sams_conformance.driver import Factory as Factory
from sams_conformance.driver import load_factory as load_factory
from sams_conformance.driver import needs_durable as needs_durable
from sams_conformance.report import Report as Report
from sams_conformance.runner import run as run
