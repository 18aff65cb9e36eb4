"""What files a spec may name: regular ones in its own folder or below, wherever links lead."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from abw.core.base.files import why_no_file
from abw.core.spec.text.document import Scalar
from abw.core.spec.text.report import Report

HINT = "move it there, or let the spec read it: --allow-outside (in Python: allow_outside=True)"


@dataclass(frozen=True, slots=True)
class Reach:
    """The folder of a spec, where the paths that it names begin; with `outside` they may lead out of it."""

    folder: Path
    outside: bool = False

    def file(self, named: Scalar, what: str, report: Report) -> Path | None:
        """The path that a spec names, whether or not a file is there; None, with the problem in `report`,
        where it leads out of the folder or to what is no regular file.
        """
        path = self.folder / named.text
        try:
            inside = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder))
            if not self.outside and not inside:
                message = f"{what} {path} is outside the spec's folder {self.folder.absolute()}"
                report.add(message, named.where, HINT)
            elif found := why_no_file(path):
                report.add(f"{what} {path} is {found}, not a file", named.where)
            else:
                return path
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            report.add(f"cannot read {str(path)!r}: {reason}", named.where)
        return None
