"""What every command does with its arguments beyond typer."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from collections.abc import Iterable


class Command(TyperCommand):
    """A command that refuses an option that is given twice, where only one of the values could count, and nan.

    Its usage shows which arguments may be several: [FILE]...
    """

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]  # typer's own
        """Ends the command with wrong usage, which names the option."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            takes_one = parameter.param_type_name == "option" and not (
                parameter.multiple or getattr(parameter, "is_flag", False)
            )
            if takes_one and times > 1:
                ctx.fail(f"{max(parameter.opts, key=len)} is given {times} times; give it once")
        left = super().parse_args(ctx, args)
        for parameter in self.get_params(ctx):
            value = ctx.params.get(parameter.name or "")
            if isinstance(value, float) and math.isnan(value):  # which lies within any bounds, compared with them
                ctx.fail(f"{max(parameter.opts, key=len)}: nan is not a number")
        return left

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # typer's own
        """Of the first line of help."""
        pieces = [self.options_metavar] if self.options_metavar else []
        for parameter in self.get_params(ctx):
            several = parameter.param_type_name == "argument" and parameter.nargs == -1
            pieces += [f"{piece}..." if several else piece for piece in parameter.get_usage_pieces(ctx)]
        return pieces


def apply_to(apps: Iterable[typer.Typer]) -> None:
    """Make Command the class of every command of these that has none of its own."""
    for app in apps:
        for command in app.registered_commands:
            command.cls = Command if command.cls in (None, TyperCommand) else command.cls
