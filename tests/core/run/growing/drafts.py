"""Random sections `grow`, drawn by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

CELL = """\
cell: rnn
dims: [hidden]
inputs: {x: hidden, h: hidden, g: hidden}
params: {W: [hidden, hidden], U: [hidden, hidden], V: [hidden, hidden], b: hidden}
equations: h1 = tanh(W @ x + U @ h + V @ g + b)
outputs: {h: h1}
"""
SCORES = """\
cell: scores
dims: [hidden]
inputs: {x: hidden}
params: {W: [3, hidden], v: [1, hidden]}
equations: |
  y = W @ x * 4
  z = v @ x
outputs: {y: y, z: z}
"""
DATA = "a|N b|V\nc|N\nb|V d|N a|N\nd|V c|N\na|N\n"
VALUES = ("at.instance.token.buffer.h", "at.instance.token.buffer.h or up.run.h or idle")


class Draft:
    """A random section `grow` of kinds a and b, over sentences."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.links = {
            "a": {"up": "a", "side": "b", "at": "token"},
            "b": {"before": "b", "owner": "a", "at": "token"},
        }
        self.fields = {"a": ("depth", "row"), "b": ("depth",)}
        self.choices = {"a": ("pick", "go"), "b": ("toss",)}
        self.beam = draw.draw(st.booleans())

    def one(self, *options: str) -> str:
        return self.draw.draw(st.sampled_from(options))

    def places(self, kind: str, target: str, added: dict[str, str]) -> list[str]:
        starts = {"this": kind, **added}
        found = ["token[1]" for _ in range(0)]
        for name, begin in starts.items():
            if begin == target:
                found.append(name)
            for link, to in self.links[begin].items():
                way = link if name == "this" else f"{name}.{link}"
                if to == target:
                    found.append(way)
                if to in self.links:
                    found += [f"{way}.{more}" for more, end in self.links[to].items() if end == target]
                elif target == "token":
                    found.append(f"{way}.next")
        return found

    def test(self, kind: str, decided: bool) -> str:
        numbers = ["index", *self.fields[kind], *(self.choices[kind] if decided else ())]
        links = self.places(kind, self.one("a", "b", "token"), {})
        number = self.one(*numbers)
        against = self.one("0", "1") if number in ("go", "toss") else self.one("0", "1", "2")
        options = [f"{number} {self.one('<', '>', '==', '!=', '<=')} {against}"]
        options += [self.one(*links)] if links else []
        options += [self.one(*numbers)]
        return self.one("", "not ") + self.one(*options)

    def tests(self, kind: str, decided: bool = True) -> str:
        return " and ".join(self.test(kind, decided) for _ in range(self.draw.draw(st.integers(1, 2))))

    def clause(self, kind: str, number: int, added: dict[str, str]) -> str:
        adds, named = self.one("a", "b"), self.draw.draw(st.booleans())
        parts = [f"add: {adds}"] + ["each: pick"] * (self.beam and kind == "a")
        if named:
            parts.append(f"as: new{number}")
        parts.append(f"when: {self.tests(kind)}")
        if self.draw.draw(st.booleans()):
            parts.append(f"unless: {self.tests(kind)}")
        for link, target in self.links[adds].items():
            places = self.places(kind, target, added)
            wanted = self.draw.draw(st.booleans())
            if places and wanted:
                parts.append(f"{link}: {self.one(*places)}")
        for name in self.fields[adds]:
            rows = ["pick", "2"] if kind == "a" else ["0", "1"]
            plain = ["depth + 1", "depth", "3", "index", *self.choices[kind]]
            parts.append(f"{name}: {self.one(*(rows if name == 'row' else plain))}")
        if named:
            added[f"new{number}"] = adds
        return "      - {" + ", ".join(parts) + "}\n"

    def then(self, kind: str) -> str:
        added: dict[str, str] = {}
        count = self.draw.draw(st.integers(1, 3))
        found = "".join(self.clause(kind, number, added) for number in range(count))
        return found + (self.crowd(added) if kind == "a" else "")

    def crowd(self, added: dict[str, str]) -> str:
        """Clauses of kind a that add one vertex of kind c for each of a list, with what was just added."""
        lists = {"instance.token": "token", "members": "c", "up.members": "c", "side.owner.members": "c"}
        homes = [name for name, kind in added.items() if kind == "a"]
        found = []
        for number in range(int(self.one("0", "1", "2", "3"))):
            where = self.one(*lists) if number else "instance.token"
            parts = ["add: c", f"each: x in {where}"] if not self.beam else ["add: c", "each: pick"]
            home = self.one("added", "added", "added", "this", "")
            if home == "added" and homes:
                parts.append(f"home: {self.one(*homes)}")
            elif home == "this" and not self.beam:
                parts.append("home: this")
            if self.draw.draw(st.booleans()):
                parts.append(f"when: {self.tests('a')}")
            if not self.beam:
                of = self.one("index", "of.index + 1") if lists[where] == "c" else "index"
                parts.append(f"place: x.{of}")
                parts.append("of: x, at: x.at" if lists[where] == "c" else "at: x")
                if self.draw.draw(st.booleans()):
                    parts.append(f"unless: x.index > {self.one('0', '1', '2')} and {self.tests('a')}")
            else:
                parts.append("place: pick")
            found.append("      - {" + ", ".join(parts) + "}\n")
        return "".join(found)

    def crowds(self) -> tuple[str, str, str]:
        """The links, the kind and the types of lists."""
        those = self.one("home.members.each.h", "home.members.of.each.h")
        own = self.one("home.run.h", "home.up.run.h", "of.others.y")
        how = self.one("mean", "sum", "max", "var", "std")
        idle = "" if how in ("var", "std") else " or idle"
        return (
            "links: {members: {reverse: home}}\n",
            f"""\
  c:
    links: {{home: a or none, of: c or none, at: token or none}}
    fields: {{place: number}}
    most: {self.draw.draw(st.integers(1, 12))}
""",
            f"""\
  each: {{per: c, cell: rnn.yaml, inputs: {{x: "depths[place] or zeros",
    h: of.each.h or at.buffer.h or zeros, g: {own} or idle}}}}
  others: {{per: c, attend: {{query: each.h, keys: {those}, values: {those} or idle}}}}
  gather: {{per: a, {how}: {{h: members.each.h{idle}}}}}
  least: {{per: c, cell: scores.yaml, inputs: {{x: others.y}}}}
""",
        )

    def choose(self) -> str:
        how = "best" if self.beam else self.one("argmax", "sample")
        scores = f"{self.one('1', '2', '4')} of score.y" if self.beam else "score.y"
        if self.draw.draw(st.booleans()):
            allow = ", ".join(f"c{i}: {self.tests('a', False)}" for i in range(3))
            return f"{{{how}: {scores}, allow: {{{allow}}}}}"
        return f"{how} {scores}"

    def text(self) -> str:
        def optional(links: dict[str, str]) -> str:
            return ", ".join(f"{name}: {to} or none" for name, to in links.items())

        read = self.one(
            "up.run.h", "side.pass.h", "up.up.run.h", "at.buffer.h", "instance.pooled.h", "near.h"
        )
        listed = ("gather.h", "members[0].each.h or run.h")
        scored = self.one("run.h", "look.y", "up.look.y or run.h", *listed)
        members, crowd, their_types = self.crowds()
        return f"""\
model: random
dims: {{hidden: 3}}
data: {{format: tags, path: d.txt, batch: 3, seed: {self.draw.draw(st.integers(0, 9))}}}
tables: {{words: {{dim: hidden, rows: 8}}, rows: {{dim: hidden, rows: 3}}, depths: {{dim: hidden, rows: 4}}}}
params: {{idle: hidden}}
{members}grow:
  a:
    links: {{{optional(self.links["a"])}}}
    fields: {{depth: number, row: rows}}
    most: {self.draw.draw(st.integers(1, 7))}
    start: {{depth: 0, row: 1, at: "token[{self.one("0", "-1", "1")}]"}}
    choose: {{pick: {self.choose()}, go: score.z > {self.one("-0.2", "0", "0.3")}}}
    then:
{self.then("a")}  b:
    links: {{{optional(self.links["b"])}}}
    fields: {{depth: number}}
    most: {self.draw.draw(st.integers(1, 7))}
    choose: {{toss: chance {self.one("0", "0.4", "0.9")}}}
    then:
{self.then("b")}{crowd}types:
  buffer: {{per: token, cell: rnn.yaml, inputs: {{x: "words[word]", h: prev.buffer.h or zeros, g: idle}}}}
  run: {{per: a, cell: rnn.yaml, inputs: {{x: "rows[row]", h: {read} or zeros,
    g: side.pass.h or up.run.h or idle}}}}
  pass: {{per: b, where: depth < 3, cell: rnn.yaml, inputs: {{x: "depths[owner.go] or depths[depth] or zeros",
    h: before.pass.h or zeros, g: owner.run.h or at.buffer.h or idle}}}}
  pooled: {{per: instance, mean: {{h: token.buffer.h}}}}
  near: {{per: a, sum: {{h: at.instance.token.buffer.h or idle}}}}
  look: {{per: a, attend: {{query: run.h, keys: at.instance.token.buffer.h, values: {self.one(*VALUES)}}}}}
{their_types}  score: {{per: a, cell: scores.yaml, inputs: {{x: "{scored}"}}}}
  all: {{per: instance, mean: {{h: a.run.h or idle}}}}
  end: {{per: instance, cell: scores.yaml, inputs: {{x: all.h}}}}
outputs: {{pick: a.pick, toss: b.toss, end: end.y, least: least.y}}
"""
