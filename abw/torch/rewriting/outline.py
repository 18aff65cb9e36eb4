"""Functions rewritten: stretches of operations on tensors become calls of regions.

Form decides what may be in a region: calls of PyTorch's functions, of the model's modules and of tensors'
methods, arithmetic, assignments to names. All else (recursion, loops, conditions, lists that grow, attributes
of the instance) stays as it is. What sits inside of an expression is taken out first (`t1 =
self.traverse(node.left)`). Form does not say whether `x.size(0)` is a tensor's: a region that is given
something else says so, the name is marked, and the function is rewritten once more.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable
from typing import Any

import torch

from abw.torch.rewriting.forms import (
    CALLED,
    FUNCTIONS,
    METHODS,
    WEAK,
    Forms,
    Marks,
    NotFound,
    Pending,
    Piece,
    at_line,
    code_writes,
    contents,
    is_torchs,
    load,
    reads,
    target,
    writes,
    writes_in_place,
)  # fmt: skip

# Statements behind a condition that are put into both of its branches.
MOST_COPIED = 14


class Outliner(Forms):
    """Rewrites one function: `pieces` are its regions, `modes` the lines that switch gradients off or on."""

    def __init__(self, function: Any, owner: Any, marks: Marks) -> None:
        """Errors: OSError, SyntaxError where the source cannot be read."""
        super().__init__(function, owner, marks)
        self.pieces: list[Piece] = []
        self.modes: list[int] = []
        # By names of globals: attributes of the module that the function reads there.
        self.direct: dict[str, str] = {}
        self._temps = 0
        self._origins: dict[str, set[str]] = {}
        inner = [
            f
            for f in ast.walk(self.tree)
            if isinstance(f, ast.FunctionDef | ast.Lambda) and f is not self.tree
        ]
        self._nested = {n.id for f in inner for n in ast.walk(f) if isinstance(n, ast.Name)}
        scopes = (n for n in ast.walk(self.tree) if isinstance(n, ast.Nonlocal | ast.Global))
        self.marks.structural.update(name for n in scopes for name in n.names)
        self.tree.body = self._block(self.tree.body)
        self._resolve()

    # out of expressions -------------------------------------------------------------------------------------
    def _temp(self, value: Any, out: list[Any], like: Any) -> Any:
        self._temps += 1
        name = f"t{self._temps}_"
        self.locals.add(name)
        out.append(at_line(ast.Assign([ast.Name(name, ast.Store())], value), like))
        return at_line(load(name), like)

    def _normal(self, e: Any, out: list[Any]) -> Any:
        """An expression whose impure parts are taken out of its pure ones, and the other way round."""
        if self.pure(e):
            return e
        if self._could_be_pure(e):
            return self._mapped(e, lambda child: self._hoisted(child, out))
        match e:
            case ast.Call():
                e = self._mapped(e, lambda child: self._argument(child, out), arguments_alone=True)
                if isinstance(e.func, ast.Attribute):
                    e.func.value = self._argument(e.func.value, out)
                return e
            case ast.Subscript():
                e.value = self._argument(e.value, out)
                return e
            case ast.Compare() if len(e.ops) > 1:
                return self._inline(e)
            case (
                ast.Attribute() | ast.Tuple() | ast.List() | ast.BinOp() | ast.UnaryOp() | ast.Starred()
                | ast.Compare()
            ):  # fmt: skip
                return self._mapped(e, lambda child: self._argument(child, out))
            case ast.Dict():
                e.values = [self._argument(v, out) for v in e.values]
                return e
        return self._inline(e)

    def _could_be_pure(self, e: Any) -> bool:
        """A call of an operation, or arithmetic, whose arguments are to be taken out."""
        if getattr(e, "lineno", None) in self.marks.lines:
            return False
        match e:
            case ast.Call():
                found = self.static(e.func)
                if found is not NotFound and (id(found) in FUNCTIONS or isinstance(found, torch.nn.Module)):
                    return self.operation(e) > 0 and all(k.arg and k.arg != "out" for k in e.keywords)
                if (
                    isinstance(e.func, ast.Attribute)
                    and e.func.attr in METHODS - WEAK
                    and not self.pure(e.func.value)
                ):
                    return self._could_be_pure(e.func.value)
            case ast.BinOp():
                sides = (e.left, e.right)
                return any(self.strength(x) == 2 and (self.pure(x) or self._could_be_pure(x)) for x in sides)
        return False

    def _mapped(self, e: Any, change: Callable[[Any], Any], arguments_alone: bool = False) -> Any:
        """An expression with its parts changed; of a call also what its method is of, unless known."""

        def each(x: Any) -> Any:
            if isinstance(x, ast.Starred | ast.keyword):
                x.value = change(x.value)
                return x
            return change(x) if isinstance(x, ast.expr) else x

        for name, part in ast.iter_fields(e):
            if isinstance(part, list):
                setattr(e, name, [each(x) for x in part])
            elif name != "func":
                setattr(e, name, each(part))
            elif not arguments_alone and isinstance(part, ast.Attribute) and self.static(part) is NotFound:
                part.value = change(part.value)
        if isinstance(e, ast.Call) and e.keywords and not self.pure(e):
            module = self.static(e.func)
            if isinstance(module, torch.nn.Module) and is_torchs(module):
                e.func = at_line(ast.Attribute(e.func, CALLED, ast.Load()), e.func)
        return e

    def _hoisted(self, e: Any, out: list[Any]) -> Any:
        """A part of a pure expression: a name, where it is not pure itself."""
        if self.pure(e):
            return e
        if isinstance(e, ast.Tuple | ast.List | ast.BinOp) or self._could_be_pure(e):
            return self._mapped(e, lambda child: self._hoisted(child, out))
        return self._temp(self._normal(e, out), out, e)

    def _argument(self, e: Any, out: list[Any]) -> Any:
        """A part of an impure expression: a name, where it computes."""
        found = e if self.pure(e) else self._normal(e, out)
        if self.pure(found) and self.strength(found) == 2:
            return self._temp(found, out, e)
        return found

    def _inline(self, e: Any) -> Any:
        """Inside of what may be run never or several times: comprehensions, x if y else z, lambdas."""
        outliner = self

        class Inline(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                if isinstance(node, ast.expr) and outliner.pure(node) and outliner.strength(node) == 2:
                    return outliner._expression(node)
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    return node
                return self.generic_visit(node)

        return Inline().visit(e)

    # statements ---------------------------------------------------------------------------------------------
    def _block(self, statements: list[Any]) -> list[Any]:
        return self._grouped(self._tails(self._taken_apart(statements)))

    def _taken_apart(self, statements: list[Any]) -> list[Any]:
        out: list[Any] = []
        for s in statements:
            self._statement(s, out)
        return out

    def _statement(self, s: Any, out: list[Any]) -> None:
        match s:
            case ast.Assign():
                s.value = self._normal(s.value, out)
            case ast.AnnAssign() if s.value is not None and isinstance(s.target, ast.Name):
                s = at_line(ast.Assign([s.target], self._normal(s.value, out)), s)
            case ast.AugAssign():
                s.value = s.value if self.pure(s.value) else self._argument(s.value, out)
            case ast.Return() if s.value is not None:
                value = self._normal(s.value, out)
                if self.pure(value) and self.strength(value) == 2:
                    if isinstance(value, ast.Tuple):
                        value.elts = [
                            self._temp(x, out, x) if self.strength(x) == 2 else x for x in value.elts
                        ]
                    else:
                        value = self._temp(value, out, s)
                s.value = value
            case ast.Expr():
                s.value = self._normal(s.value, out)
            case ast.If():
                s.test = self._test(s.test, out)
                # grouped when what follows was put behind it
                s.body, s.orelse = self._taken_apart(s.body), self._taken_apart(s.orelse)
            case ast.For():
                s.iter = self._argument(s.iter, out)
                s.body, s.orelse = self._block(s.body), self._block(s.orelse)
            case ast.While():
                self._while(s)
            case ast.With():
                if any(self.changes_gradients(item.context_expr) for item in s.items):
                    self.modes.append(s.lineno)
                s.body = self._block(s.body)
            case ast.Try():
                s.body, s.orelse, s.finalbody = (
                    self._block(part) for part in (s.body, s.orelse, s.finalbody)
                )
                for handler in s.handlers:
                    handler.body = self._block(handler.body)
            case ast.FunctionDef():
                s.body = self._block(s.body)
        out.append(s)

    def _test(self, e: Any, out: list[Any]) -> Any:
        return self._inline(e) if isinstance(e, ast.BoolOp) else self._argument(e, out)

    def _while(self, s: Any) -> None:
        before: list[Any] = []
        test = self._test(s.test, before)
        if before and not s.orelse:  # what the condition computes is computed in each round
            leave = at_line(ast.If(ast.UnaryOp(ast.Not(), test), [ast.Break()], []), s)
            s.test = at_line(ast.Constant(True), s)
            s.body = self._grouped(self._tails([*before, leave, *self._taken_apart(s.body)]))
        elif before:  # with `else` it stays as it is
            s.body, s.orelse = self._block(s.body), self._block(s.orelse)
            s.test = self._inline(s.test)
        else:
            s.test, s.body, s.orelse = test, self._block(s.body), self._block(s.orelse)

    def _is_pure(self, s: Any) -> bool:
        if isinstance(s, ast.AugAssign):
            names, value = [s.target], s.value
        elif isinstance(s, ast.Assign) and len(s.targets) == 1:
            target, value = s.targets[0], s.value
            names = [target] if isinstance(target, ast.Name) else getattr(target, "elts", [])
        else:
            return False
        if not names or not all(isinstance(n, ast.Name) and n.id not in self.marks.structural for n in names):
            return False
        return s.lineno not in self.marks.lines and self.pure(value)

    def _tails(self, out: list[Any]) -> list[Any]:
        """Pure statements behind a condition are put into both of its branches: so they are one region with
        what these compute.
        """
        at = 0
        while at < len(out):
            s = out[at]
            if isinstance(s, ast.If):
                end = at + 1
                while end < len(out) and self._is_pure(out[end]):
                    end += 1
                run = out[at + 1 : end]
                while run and self.strength(run[-1]) < 2:
                    run = run[:-1]
                ends = [b for b in (s.body, s.orelse) if b]
                pure = any(self._is_pure(b[-1]) and self.strength(b[-1]) for b in ends)
                if run and len(run) <= MOST_COPIED and s.orelse and pure:
                    for name in ("body", "orelse"):
                        branch = getattr(s, name)
                        if not isinstance(branch[-1], ast.Return | ast.Break | ast.Continue | ast.Raise):
                            setattr(s, name, [*branch, *[copy.deepcopy(r) for r in run]])
                    out = [*out[: at + 1], *out[at + 1 + len(run) :]]
                s.body, s.orelse = self._grouped(self._tails(s.body)), self._grouped(self._tails(s.orelse))
            at += 1
        return out

    def _grouped(self, out: list[Any]) -> list[Any]:
        """Maximal runs of pure statements as regions, moved up over simple impure ones between them."""
        found: list[Any] = []
        run: list[Any] = []  # pure
        behind: list[Any] = []  # impure ones that came after the run began
        tensors: set[str] = set()

        def close() -> None:
            nonlocal run, behind
            if run:
                found.extend(self._region(run))
            found.extend(behind)
            run, behind = [], []

        for s in out:
            self._note_origins(s)
            if self._is_pure(s):
                mine, made = reads(s), writes(s)
                written = made | (writes(s.target) if isinstance(s, ast.AugAssign) else set())
                if any(self._hinders(b, mine, written, tensors) for b in behind):
                    close()
                run.append(s)
                tensors = tensors | made if self.strength(s.value) == 2 else tensors - made
            elif isinstance(s, ast.Expr | ast.Assign | ast.AugAssign):
                (behind if run else found).append(s)
                tensors -= writes(s)
            else:
                close()
                found.append(s)
                tensors -= writes(s)
        close()
        return found

    def _hinders(self, b: ast.stmt, mine: set[str], made: set[str], tensors: set[str]) -> bool:
        """Whether a pure statement that reads `mine` and writes `made` cannot move up over an impure one."""
        mentioned, changed = reads(b), writes(b)
        known, of = tensors, mine
        called = [n.func for n in ast.walk(b) if isinstance(n, ast.Call)]
        if writes_in_place(b) or any(code_writes(self.static(f)) for f in called):
            known, of = set(), self._origins_of(mine)  # it may write into what these are views of
            mentioned = self._origins_of(mentioned)
        return bool(
            (mine & changed) or (made & (mentioned | changed)) or ((of & mentioned) - known)
            or (called and (mine | made) & self._nested)
        )  # fmt: skip

    def _note_origins(self, s: ast.stmt) -> None:
        """Note what the names that a statement assigns are made of, as far as names say it."""
        made = writes(s)
        if made:
            found = made | self._origins_of(reads(s))
            for name in made:
                self._origins[name] = self._origins.get(name, set()) | found

    def _origins_of(self, names: set[str]) -> set[str]:
        found: set[str] = set().union(names, *(self._origins.get(name, ()) for name in names))
        return {name for name in found if name != self.me and name not in self.globals}

    def _region(self, run: list[Any]) -> list[Any]:
        """Statements as a region's call, without those at its ends that compute nothing."""
        firm = [i for i, s in enumerate(run) if isinstance(s, ast.AugAssign) or self.strength(s.value)]
        if not any(self.strength(run[i].value) > (not isinstance(run[i].value, ast.BinOp)) for i in firm):
            return run
        begin, end = firm[0], firm[-1] + 1
        return [*run[:begin], Pending(run[begin:end]), *run[end:]]

    def _expression(self, e: Any) -> Any:
        """A pure expression as a region's call in its place."""
        live = sorted(reads(e) & self.locals - {self.me})
        name = self._add(live, [at_line(ast.Return(e), e)], e)
        return at_line(ast.Call(load(name), [load(n) for n in live], []), e)

    def _add(self, live: list[str], body: list[Any], like: Any) -> str:
        name = f"region{len(self.pieces)}_"
        self.pieces.append(Piece(name, live, body, like.lineno))
        return name

    def _resolve(self) -> None:
        """Now that all is grouped it is known what is read behind a region: these are its outputs."""
        pending: list[Any] = [n for n in ast.walk(self.tree) if isinstance(n, Pending)]
        for p in pending:
            for s in p.run:
                p.live += [
                    n
                    for n in sorted(reads(s))
                    if n in self.locals and n not in {self.me, *p.written, *p.live}
                ]
                p.written |= writes(s)
        read = set(self._nested).union(*(p.live for p in pending), *(p.live for p in self.pieces))

        def walk(node: ast.AST) -> None:
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, Pending):
                    read.update(
                        [child.id] if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) else []
                    )
                    read.update(reads(child) if isinstance(child, ast.AugAssign) else [])
                    walk(child)

        walk(self.tree)
        outliner = self

        class Replace(ast.NodeTransformer):
            def visit(self, node: ast.AST) -> Any:
                if not isinstance(node, Pending):
                    return self.generic_visit(node)
                outs = sorted(node.written & read)
                back = at_line(ast.Return(target(outs, ast.Load) if outs else None), node.run[-1])
                name = outliner._add(node.live, [*node.run, back], node.run[0])
                call = ast.Call(load(name), [load(n) for n in node.live], [])
                made = ast.Assign([target(outs, ast.Store)], call) if outs else ast.Expr(call)
                return at_line(made, node.run[0])

        self.tree = Replace().visit(self.tree)

    def _found_directly(self) -> None:
        """Let its modules, and its methods that are called, be globals, which Python finds faster."""
        outliner, me, owner = self, self.me, self.owner
        again = (n for n in ast.walk(self.tree) if isinstance(n, ast.arg | ast.Name))
        if sum(getattr(n, "arg", n) == me or writes(n) == {me} for n in again) != 1:
            return  # another thing has that name, too

        def name(e: Any, called: bool) -> Any:
            if not (isinstance(e, ast.Attribute) and isinstance(e.value, ast.Name) and e.value.id == me):
                return None
            thing = outliner.static(e) if type(e.ctx) is ast.Load else NotFound
            if called:
                fits = getattr(thing, "__self__", None) is owner and e.attr not in vars(owner)
            else:
                fits = isinstance(thing, torch.nn.Module) and is_torchs(thing)
            if not fits:
                return None
            outliner.direct[f"{me}_{e.attr}_"] = e.attr
            return at_line(load(f"{me}_{e.attr}_"), e)

        class Direct(ast.NodeTransformer):
            def visit_Call(self, node: ast.Call) -> Any:
                found = name(node.func, called=True)
                if found is not None:
                    node.func, node.args = found, [at_line(load(str(me)), node), *node.args]
                return self.generic_visit(node)

            def visit_Attribute(self, node: ast.Attribute) -> Any:
                return name(node, called=False) or self.generic_visit(node)

        self.tree = Direct().visit(self.tree)

    # the whole ----------------------------------------------------------------------------------------------
    def rewritten(self, scope: dict[str, Any]) -> Any:
        """The rewritten function, with these globals."""
        self._found_directly()
        tree = self.tree
        tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
        tree.args.kw_defaults = [None if d is None else ast.Constant(None) for d in tree.args.kw_defaults]
        tree.returns = None
        for arg in ast.walk(tree.args):
            if isinstance(arg, ast.arg):
                arg.annotation = None
        name, tree.name = tree.name, "function_"  # under its own name it would call itself as it was
        code = self._compiled([tree, ast.Return(load(tree.name))], list(self.free))
        factory = next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == "factory_")
        own = next(c for c in factory.co_consts if isinstance(c, types.CodeType) and c.co_name == tree.name)
        own = own.replace(co_name=name)
        closure = tuple(self.free[n] for n in own.co_freevars)
        function = self.function
        made = types.FunctionType(own, scope, function.__name__, function.__defaults__, closure or None)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    def body_of(self, piece: Piece, scope: dict[str, Any]) -> Any:
        """A region's code as a function of what it reads; `self` is the module itself."""
        own: Any = ast.parse(f"def {piece.name}({', '.join(piece.live)}):\n    pass").body[0]
        own.body = piece.body
        names = [*self.free, *([self.me] if self.me else [])]
        code = self._compiled([own, ast.Return(load(piece.name))], names)
        made: dict[str, Any] = {}
        exec(code, scope, made)
        return made["factory_"](*map(contents, self.free.values()), *([self.owner] if self.me else []))

    def _compiled(self, body: list[Any], names: list[str]) -> Any:
        factory: Any = ast.parse(f"def factory_({', '.join(names)}):\n    pass").body[0]
        factory.body = body
        module = ast.fix_missing_locations(ast.Module([factory], []))
        return compile(module, self.function.__code__.co_filename, "exec")
