"""`Reading`: one pass over the text of a script: its commands, with quotes and variables resolved."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from lockstep.base.documents import MAX_DEPTH
from lockstep.base.errors import BadInput
from lockstep.decide.planner.imports.shell import (
    ASSIGNED,
    MOST_SCRIPT_B,
    NAME,
    Pieces,
    Shell,
    Value,
    Word,
    split,
    whole,
)
from lockstep.decide.planner.imports.shell_sums import worked_out

MOST_WORDS = 50_000
MOST_BEFORE = 32
"""Words before a document among which its command is looked for."""
RUN_DOCUMENTS = ("bash", "sh", "zsh", "sbatch")
"""Commands that run a document behind them as a script."""
TOKEN = re.compile(
    rf"""(?P<space>(?:[ \t\r]|\\\r?\n)+)|(?P<end>\n|;;&?|;&|;|&&|\|\|?&?|&(?!>))
    |(?P<heredoc><<-?[ \t]*['"]?(?P<last>\w+)['"]?)
    |(?P<placeholder><[A-Za-z][^<>\n|&;]*>)|(?P<redirect>(?:\d+(?=[<>]))?(?:&>>?|<<<|<>|[<>]{{1,2}}&?))
    |(?P<condition>\(\([^\n()]*\)\))|(?P<array>{NAME}\+?=\()|(?P<bracket>[()])|(?P<comment>\#[^\n]*)""",
    re.VERBOSE,
)
SUBSTITUTED = r"(?P<opened>\$\(\(|\$\(|\$\{|`)|\$(?P<name>[A-Za-z_]\w*|[0-9@*#?$!-])"
PART = re.compile(
    rf"""(?P<join>\\\r?\n)|\\(?P<escaped>.)|\$?'(?P<single>[^']*)'|\$?(?P<double>")|{SUBSTITUTED}
    |(?P<bare>[^\s\\'"$`;&|()<>]+|\$)""",
    re.VERBOSE | re.DOTALL,
)
QUOTED = re.compile(
    rf"""(?P<close>")|(?P<join>\\\r?\n)|\\(?P<escaped>[$`"\\])|{SUBSTITUTED}|(?P<bare>[^"\\$`]+|[\\$])""",
    re.VERBOSE | re.DOTALL,
)
PARAMETER = re.compile(rf"(?P<name>{NAME}|[0-9]+|[@*])(?:\[(?P<index>[^\]]*)\])?(?P<rest>.*)", re.DOTALL)
HERE = re.compile(r"""\s*(?:pwd|dirname\s+["']?\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?["']?)\s*""")
"""What writes the folder of the script, or the one that it is started in."""
EXPR = re.compile(r"\s*expr\s+(?=[\w$\"(])")
"""What writes a sum whose numbers and signs are words of their own; its `*` stands behind a backslash."""
COMPARED = re.compile(r"==|!=|>=|<=|[<>]")
SIGNS: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
CLOSING = {"$((": ("(", ")", 2), "$(": ("(", ")", 1), "${": ("{", "}", 1)}


def _joined(value: Value) -> Value:
    """Several texts as the one that an assignment makes of them."""
    if len(value) < 2:
        return value
    found = list(value[0])
    for one in value[1:]:
        found += [Word(" ", one[0].line if one else 1), *one]
    return (tuple(found),)


class Reading:
    """A place in a text, whose pieces know their lines."""

    def __init__(self, shell: Shell, pieces: Pieces, depth: int = 0) -> None:
        self.shell, self.pieces, self.depth, self.at = shell, pieces, depth, 0
        self.text = "".join(piece.text for piece in pieces)
        self.starts: list[int] = []
        total = 0
        for piece in pieces:
            self.starts.append(total)
            total += len(piece.text)
        if total > MOST_SCRIPT_B:
            raise BadInput(f"is larger than the {MOST_SCRIPT_B // 1024} KiB allowed for a script", shell.file)
        if depth > MAX_DEPTH:
            raise self.refuse(f"is nested deeper than the {MAX_DEPTH} levels allowed", 0)

    def commands(self) -> Iterator[list[Pieces]]:
        """Commands without the words of branches; after each one the branches know whether the next one runs."""
        command: list[Pieces] = []
        ends: list[str] = []
        skipped = False
        while self.at < len(self.text):
            if (token := TOKEN.match(self.text, self.at)) is None:
                words = self._word()
                command += [] if skipped else words
                skipped = False
                if len(command) > MOST_WORDS:
                    raise self.refuse(f"has a command of more than the {MOST_WORDS} words allowed", self.at)
                continue
            self.at = token.end()
            skipped = token["redirect"] is not None or (skipped and token["space"] is not None)
            if token["heredoc"]:
                # A document that another shell runs is read on as part of the script.
                if not any(whole(one).text in RUN_DOCUMENTS for one in command[:MOST_BEFORE]):
                    ends.append(token["last"])
            elif token["placeholder"]:
                command.append((self._unset(token.start(), token.end()),))
            elif token["condition"]:
                command.append((self._condition(token.start() + 2, token.end() - 2),))
            elif token["array"]:
                # `then ARGS+=(...)`: the branch begins before the array is set.
                command = command[self.shell.branches.begun([whole(one) for one in command]) :]
                self._array(token["array"])
            elif token["end"] or token["bracket"]:
                yield from self._ended(command, token[0])
                command = []
                self._skip(ends if token[0] == "\n" else [])
        yield from self._ended(command, "\n")

    def _ended(self, command: list[Pieces], end: str) -> Iterator[list[Pieces]]:
        branches = self.shell.branches
        words = [whole(one) for one in command]
        first = branches.begun(words)
        if first < len(command):
            yield command[first:]
        branches.ended(words[first:], end)

    def _skip(self, ends: list[str]) -> None:
        """Moves behind documents that stand in the script."""
        for last in ends:
            found = re.compile(rf"^[ \t]*{last}[ \t]*$", re.M).search(self.text, self.at)
            self.at = found.end() if found else len(self.text)
        ends.clear()

    def _array(self, opened: str) -> None:
        """Reads the elements of an array up to its bracket, and sets it."""
        name, start = opened.rstrip("+=("), self.at
        values: list[Pieces] = []
        while self.at < len(self.text):
            if (token := TOKEN.match(self.text, self.at)) is None:
                values += self._word()
                continue
            self.at = token.end()
            if token[0] == ")":
                return self.shell.assign(name, tuple(values), "+=" in opened, array=True)
            if token["placeholder"]:
                values.append((self._unset(token.start(), token.end()),))
        raise self.refuse(f"the bracket behind {name}= is not closed", start)

    def _word(self) -> list[Pieces]:
        """The word at this place; variables make it several or none."""
        fields: list[list[Word]] = []
        sets = ASSIGNED.match(self.text, self.at) is not None
        while (part := PART.match(self.text, self.at)) is not None:
            start, self.at = self.at, part.end()
            if part["opened"] or part["name"]:
                value = self._substituted(part, start)
                value = value if sets else tuple(one for each in value for one in split(each))
            elif part["double"]:
                value = self._quoted(start)
            elif part["join"]:
                continue
            else:
                kind = part.lastgroup or "bare"
                value = (self.cut(part.start(kind), part.end(kind)),)
            value = _joined(value) if sets else value
            if value and fields:
                fields[-1] += value[0]
            fields += [list(one) for one in (value[1:] if fields else value)]
        if self.at < len(self.text) and self.text[self.at] in "'\\":
            if self.text[self.at] == "'":
                raise self.refuse("a quote is not closed", self.at)
            self.at += 1
        return [tuple(one) for one in fields]

    def _quoted(self, start: int) -> Value:
        """What stands up to the closing quote: several texts where it holds a whole array."""
        value: list[list[Word]] = [[]]
        vanishes = False
        while (part := QUOTED.match(self.text, self.at)) is not None:
            begin, self.at = self.at, part.end()
            if part["close"]:
                # An array of nothing is no word at all, where "" is an empty one.
                return () if value == [[]] and vanishes else tuple(map(tuple, value))
            vanishes |= self._add(value, part, begin)
        raise self.refuse("a quote is not closed", start)

    def inner(self) -> Value:
        """The whole text as within quotes."""
        value: list[list[Word]] = [[]]
        while (part := QUOTED.match(self.text, self.at)) is not None:
            begin, self.at = self.at, part.end()
            if not part["close"]:
                self._add(value, part, begin)
        return tuple(map(tuple, value))

    def _add(self, value: list[list[Word]], part: re.Match[str], begin: int) -> bool:
        """Adds a part of a quoted text; whether it is an array without elements."""
        if part["opened"] or part["name"]:
            found = self._substituted(part, begin)
        elif part["join"]:
            return False
        else:
            kind = part.lastgroup or "bare"
            found = (self.cut(part.start(kind), part.end(kind)),)
        if found:
            value[-1] += found[0]
            value += map(list, found[1:])
        return not found

    def _substituted(self, part: re.Match[str], start: int) -> Value:
        """What a variable, a sum or a command stands for."""
        opened = part["opened"]
        if opened is None:
            return self._parameter(part["name"], start)
        end = self._closed(opened)
        inside = self.at, end - len(CLOSING[opened][1]) * CLOSING[opened][2] if opened != "`" else end - 1
        self.at = end
        if opened == "${":
            return self._parameter(self.text[inside[0] : inside[1]], start, inside[0])
        if opened == "$((":
            return self._sum(start, *inside)
        if HERE.fullmatch(self.text, *inside):
            return ((Word(".", self.line(start)),),)
        if (sum_of := EXPR.match(self.text, *inside)) is not None:
            found = self._sum(start, sum_of.end(), inside[1])
            return ((self._unset(start, end),),) if whole(found[0]).unset else found
        return ((self._unset(start, end),),)

    def _closed(self, opened: str) -> int:
        """The place behind the bracket that closes this one."""
        if opened == "`":
            end = self.text.find("`", self.at)
            depth = 0 if end >= 0 else 1
        else:
            one, other, depth = CLOSING[opened]
            for match in re.compile(rf"[{one}{other}]").finditer(self.text, self.at):
                depth += 1 if match[0] == one else -1
                if not depth:
                    end = match.start()
                    break
        if depth:
            raise self.refuse(f"{opened} is not closed", self.at)
        return end + 1

    def _sum(self, start: int, first: int, last: int) -> Value:
        """A sum of whole numbers, worked out."""
        said = whole(self._inner(first, last)[0])
        names = {name: self.shell.value(name) for name in re.findall(NAME, said.text)}
        plain = re.sub(NAME, lambda one: whole((names[one[0]] or ((),))[0]).text or "$", said.text).replace("\\*", "*")
        try:
            result = None if said.unset else worked_out(plain)
        except BadInput as error:
            raise self.refuse(error.message, start) from None
        if result is None:
            return ((self._unset(start, last + 2),),)
        return ((Word(str(result), said.line, doubt=said.doubt),),)

    def _condition(self, first: int, last: int) -> Word:
        """Whether a comparison of sums holds, as the command `true` or `false`."""
        sign = COMPARED.search(self.text, first, last)
        sides = [(first, last)] if sign is None else [(first, sign.start()), (sign.end(), last)]
        values = [whole(self._sum(first - 2, *side)[0]) for side in sides]
        if any(one.unset or one.doubt is not None for one in values):
            return self._unset(first - 2, last + 2)
        numbers = [int(one.text) for one in values]
        holds = bool(numbers[0]) if sign is None else SIGNS[sign[0]](*numbers)
        return Word("true" if holds else "false", self.line(first))

    def _parameter(self, said: str, start: int, first: int | None = None) -> Value:
        """The value of a variable, with what stands behind its name in braces."""
        match = PARAMETER.fullmatch(said)
        if match is None or (match["rest"] and match["rest"].lstrip(":")[:1] not in ("-", "=", "+", "?")):
            return ((self._unset(start, self.at),),)
        name, index, rest = match["name"], match["index"], match["rest"].lstrip(":")
        value = () if name in "@*" else self.shell.value(name)
        if value is not None and index not in (None, "@", "*"):
            place = int(index) if re.fullmatch("[0-9]{1,9}", index) else None
            value = None if place is None else value[place : place + 1]
        is_set = bool(value) and (match["rest"][:1] != ":" or any(piece.text for part in value or () for piece in part))
        begin = (first or 0) + match.end("rest") - len(rest) + 1
        if rest[:1] in ("-", "=") and not is_set:
            value = self._inner(begin, begin + len(rest) - 1)
            if rest[0] == "=":
                self.shell.assign(name, value)
        elif rest[:1] == "+":
            value = self._inner(begin, begin + len(rest) - 1) if is_set else ()
        if value is None:
            return ((self._unset(start, self.at),),)
        self.shell.spend(value, self.line(start))
        return value

    def _inner(self, first: int, last: int) -> Value:
        return Reading(self.shell, self.cut(first, last), self.depth + 1).inner()

    def cut(self, first: int, last: int) -> Pieces:
        """The pieces between two places."""
        found = []
        while first < last:
            place = bisect_right(self.starts, first) - 1
            piece, offset = self.pieces[place], first - self.starts[place]
            text = piece.text[offset : offset + last - first]
            found.append(Word(text, piece.line, piece.unset, piece.doubt))
            first += len(text)
        return tuple(found)

    def _unset(self, first: int, last: int) -> Word:
        """What the script does not say, as it stands there."""
        return Word(self.text[first:last], self.line(first), unset=True)

    def line(self, at: int) -> int:
        """The line of a place."""
        place = max(0, bisect_right(self.starts, at) - 1)
        return self.pieces[place].line if self.pieces else 1

    def refuse(self, why: str, at: int) -> BadInput:
        """The error of what stands at a place."""
        return self.shell.refuse(why, self.line(at))
