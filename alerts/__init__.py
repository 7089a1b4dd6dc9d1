"""Alerts that are specific to an exit: rules, their evaluation, and the causes that the numbers point to. Pure."""
