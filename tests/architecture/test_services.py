"""Recovery finishes each service that may have been announced, because one registry names them all."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import rli.services
from rli.services.planned import AnnouncedService
from rli.services.registry import ANNOUNCED_SERVICES


def test_the_registry_names_each_service() -> None:
    assert {type(service) for service in ANNOUNCED_SERVICES.values()} == {*_services()}


def _services() -> Iterator[type]:
    for module in iter_modules(rli.services.__path__, "rli.services."):
        for _, found in inspect.getmembers(import_module(module.name), inspect.isclass):
            if AnnouncedService in found.__mro__[1:] and not inspect.isabstract(found):
                yield found
