"""Regions: code on tensors that becomes cells, whose calls are recorded for the values of an instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.program.recording.values import Value
from abw.torch.recording.arguments import Kinds, StructuralError, Taken, has_tensors
from abw.torch.recording.cells import Cells, RestartError
from abw.torch.recording.library import MismatchError, SizeError
from abw.torch.recording.writer import Function, Written, write
from abw.torch.tracing.stages import Step
from abw.torch.tracing.symbols import (
    ARITHMETIC,
    CannotTrace,
    DependsOnData,
    NeedsConstant,
    NeedsFixed,
    NeedsInput,
    NeedsRows,
)
from abw.torch.tracing.trace import OwnTraced, Trace

# Kinds of arguments that a region is traced for before it is given up.
MOST_VARIANTS = 24
MOST_OPERATIONS = 128
# Lists are traced element by element for so many lengths, of short lists, and of longer ones; of these for
# one where the code can be divided.
MOST_LENGTHS, MOST_LONG, LONG = 6, 3, 8
PER_LENGTH = "it would be compiled for each length of a list"
# Functions that are tried one after the other before kinds are looked up.
MOST_CHAINED = 6


# Operations whose numbers are operands.
ARITHMETIC_NAMES = {f"torch.__{form}{name}__" for form in ("", "r") for name in ARITHMETIC[:4]}
ARITHMETIC_NAMES |= {f"torch.{name}" for name in ("add", "sub", "mul", "div")}


class Region:
    """Some code. `body(*args)` with symbols is traced; with values it would record each operation.

    `install(function)` says what is called from now on. `blame(region, how, paths, error)` is told why the
    code is no cell: "structural" or "constant" arguments, or what "cannot" be traced. `one` says that it is a
    single operation, all of whose integers are constants. `otherwise(args, why)` is called where it cannot be
    a cell; by default `body`. `derives`: whether it may return what is computed from parameters alone.
    """

    def __init__(
        self,
        cells: Cells,
        body: Function,
        name: str,
        *,
        one: bool = False,
        install: Callable[[Function], object] | None = None,
        blame: Callable[..., object] | None = None,
        otherwise: Callable[[tuple[Any, ...], str], Any] | None = None,
        where: str = "",
    ) -> None:
        self.cells, self.body, self.name, self.where = cells, body, name, where
        self.one, self.install, self._blame, self._otherwise = one, install, blame, otherwise
        self.kinds = Kinds(cells, constant=one, loose=not one or name in ARITHMETIC_NAMES)
        self.why, self.derives = "", False
        self._lengths, self._too_many = set[int](), False
        self._fixing: NeedsFixed | None = None  # why lists are traced element by element
        self.steps: list[list[Step]] = []
        self._variants: dict[Any, Written | str] = {}  # or why there is none
        self._tried: set[tuple[type, ...]] = set()
        self._fast: dict[Any, list[Callable[[Function], Function]]] = {}
        self._whole: list[Callable[[Function], Function]] = []
        self.quick: Function = self.slow
        cells.regions.append(self)

    def slow(self, *args: Any) -> Any:
        """Find what was written for arguments of these kinds, or trace the code."""
        if self.why:
            return self._alone(args)
        self.kinds.look(args)
        try:
            if self.kinds.settle(args):
                self.forget()
            key = self._key(args, taken := Taken())
            found, classes = self._variants.get(key), tuple(map(type, args))
            if found is None or classes not in self._tried:  # a function for these classes is to be written
                self._tried.add(classes)
                found = self._trace(args)
                self._key(args, taken := Taken())
            if isinstance(found, str):
                return self._alone(args, found)
            return self._record(found, taken.flat)
        except SizeError as error:
            self._fix(error)
            return self.slow(*args)
        except StructuralError as error:
            if self._blame is None:
                return self._refuse("the argument is not a tensor", args)
            self._blame(self, "structural", error.paths, error)
            return self.body(*args)
        except CannotTrace as error:
            return self._refuse(str(error), args, error)

    def _record(self, written: Written, flat: list[Any]) -> Any:
        try:
            return written.record(flat)
        except SizeError:
            raise
        except MismatchError:
            rows = [self._alike(one) for one in flat]
            try:
                return written.record(rows)
            except MismatchError:
                raise CannotTrace("tensors of several shapes in one list") from None

    def _alike(self, rows: Any) -> Any:
        """Rows that are all of the first one's class."""
        if isinstance(rows, list | tuple) and rows and isinstance(rows[0], Value):
            return [r if type(r) is type(rows[0]) else self.cells.view_as(r, type(rows[0])) for r in rows]
        return rows

    def forget(self) -> None:
        """Forget what was written: arguments are taken in another way now."""
        self._variants.clear()
        self._fast.clear()
        self._whole.clear()
        self._tried.clear()
        self._installed(self.slow)

    def _installed(self, function: Function) -> None:
        self.quick = function
        if self.install is not None:
            self.install(function)

    def _refuse(self, why: str, args: tuple[Any, ...], error: Exception | None = None) -> Any:
        """Give up this call alone."""
        if self._blame is not None and error is not None and self._blame(self, "cannot", [], error):
            return self.body(*args)
        return self._alone(args, why)

    def _alone(self, args: tuple[Any, ...], why: str = "") -> Any:
        """Each operation by itself."""
        if self._otherwise is not None:
            return self._otherwise(args, why or self.why)
        return self.body(*args)

    def _key(self, args: tuple[Any, ...], to: Taken) -> Any:
        if self._blame is not None:
            plain = [
                (i,) for i, a in enumerate(args) if type(a) in (tuple, list, dict) and not has_tensors(a)
            ]
            if plain:
                raise StructuralError(plain)
        return self.kinds.key(args, to)

    def _trace(self, args: tuple[Any, ...]) -> Written | str:
        """Trace the code for arguments of these kinds; why it cannot be a cell where it cannot."""
        if len(self._variants) >= (MOST_OPERATIONS if self.one else MOST_VARIANTS):
            return self._fail(CannotTrace("it is called with too many kinds of arguments"))
        longest = 0 if self.cells.exports else self.kinds.longest(args)
        self._lengths |= {longest} - {0}
        most = MOST_LENGTHS if longest <= LONG else 1 if self._blame is not None else MOST_LONG
        if longest and (self._too_many or len(self._lengths) > most):
            if self._fixing is not None and self._blame is not None:
                raise self._fixing  # at its line: what is left may take lists of any length
            if not self._too_many:  # none is to be compiled
                self._too_many = self.cells.stale = True
                self.forget()
            return f"{PER_LENGTH} ({self._fixing})"
        for _ in range(16):
            trace = Trace(self.cells.names, not self.cells.exports)
            key = self._key(args, Taken())
            self.cells.traces.append(trace)
            try:
                symbols = self.kinds.symbols(trace, args)
                with OwnTraced(trace):
                    result = self.body(*symbols)
                made = write(self, trace, args, symbols, result)
            except (NeedsFixed, NeedsInput) as error:
                lists = isinstance(error, NeedsFixed)
                self._fixing = error.kept() if isinstance(error, NeedsFixed) else self._fixing
                if not self.kinds.refined(args, lists):
                    if lists:
                        return self._fail(error, key)
                    self.derives = True
                self.forget()
            except NeedsRows as error:
                self.kinds.rows.add(error.path)
                self.forget()
            except NeedsConstant as error:
                self._fix(error)
            except (RestartError, StructuralError):
                raise
            except AbwError:
                raise
            except Exception as error:  # whatever the user's code does with symbols
                return self._fail(error, key)
            else:
                self._variants[key] = made
                if made.steps not in self.steps:
                    self.steps.append(made.steps)
                if made.fast is not None:
                    self._add_fast(tuple(map(type, args)), made)
                return made
            finally:
                self.cells.traces.pop()
        return self._fail(CannotTrace("tracing does not settle"))

    def _fix(self, error: NeedsConstant | SizeError) -> None:
        """Take an integer as a constant from now on."""
        if self._blame is not None:
            self._blame(self, "structural", [error.path], error)
        self.kinds.constants.add(error.path)
        self.forget()

    def _fail(self, error: Exception, key: Any = None) -> str:
        """Give up the code; of an operation alone only arguments of these kinds."""
        why = str(error) if isinstance(error, CannotTrace) else f"{type(error).__name__}: {error}"
        if self.one and key is not None:
            self._variants[key] = why
            return why
        decides, self.why = isinstance(error, DependsOnData), why
        self._installed(self.slow)
        if self._blame is not None:
            self._blame(self, "decides" if decides else "cannot", [], error)
        return why

    def _add_fast(self, kinds: tuple[type, ...], made: Written) -> None:
        """Call a function that looks for no keys, where arguments are of these classes."""
        assert made.fast is not None
        makes = self._whole if made.whole else self._fast.setdefault(kinds, [])
        makes.append(made.fast)
        del makes[: -(MOST_VARIANTS if made.whole else MOST_CHAINED)]
        self._installed(self._chain(self._whole, self._chosen()))

    def _chosen(self) -> Function:
        """The function of Python's for these arguments, by their classes."""
        chains = {k: self._chain(made, self.slow) for k, made in self._fast.items()}
        if len(chains) == 1 and not self._whole:
            return next(iter(chains.values()))
        if len({len(k) for k in chains}) != 1:
            return self.slow
        names = [f"a{i}" for i in range(len(next(iter(chains))))]
        classes = "".join(f"{n}.__class__, " for n in names)
        every = ", ".join(names)
        scope: dict[str, Any] = {"chains": chains, "slow": self.slow}
        source = f"def choose({every}):\n    return chains.get(({classes}), slow)({every})"
        exec(compile(source, f"<region {self.name}>", "exec"), scope)
        return scope["choose"]  # type: ignore[no-any-return]

    def _chain(self, makes: list[Callable[[Function], Function]], found: Function) -> Function:
        for make in makes:
            found = make(found)
        return found
