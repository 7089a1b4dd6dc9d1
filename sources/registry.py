"""The source adapters, found by listing this package: adding a source is adding one module that exports ``ADAPTER``."""

import pkgutil
from functools import cache
from importlib import import_module

import sources
from sources.base import Adapter, Document


@cache
def adapters() -> tuple[Adapter, ...]:
    """Return all adapters, by name."""
    modules = (import_module(f"sources.{module.name}") for module in pkgutil.iter_modules(sources.__path__))
    found = (getattr(module, "ADAPTER", None) for module in modules)
    return tuple(sorted((adapter for adapter in found if isinstance(adapter, Adapter)), key=lambda each: each.name))


def adapter(name: str) -> Adapter | None:
    """Return the adapter of that name."""
    return next((each for each in adapters() if each.name == name), None)


def recognised(document: Document) -> tuple[Adapter, ...]:
    """Return the adapters that recognise the document; none or several mean that the user has to name one."""
    return tuple(each for each in adapters() if each.recognises(document.name, document.head))
