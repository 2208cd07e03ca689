"""What Ctrl-C says of a run of training: which command goes on with it. It may not know what a run stores."""

from __future__ import annotations


def what_goes_on(begun: bool, resume: bool, kept: str = "") -> str:
    """begun: whether --resume finds the run. resume: whether this was passed. kept: what a run that has not begun
    leaves for the next one."""
    if begun:
        return f"interrupted; the same command {'' if resume else 'with --resume '}continues"
    beginning = f"the same command {'without --resume ' if resume else ''}begins again"
    return f"interrupted before the first step; {beginning}{f', {kept}' if kept else ''}"
