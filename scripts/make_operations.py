#!/usr/bin/env python3
"""Writes the declarations of elementwise operations in include/volta/ops.h and tensor.h.

They are made of src/graph/record/elementwise.def, whose head explains its columns, and stand in
each header between two comments that name this script. The headers are committed, so that a build
needs no Python.
  make_operations.py           writes them anew
  make_operations.py --check   says whether they are what it would write (the CTest op_headers)
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "src/graph/record/elementwise.def"
FIRST = "// Generated from src/graph/record/elementwise.def by scripts/make_operations.py."
LAST = "// End of the generated declarations."
WIDTH = 100

UNARY = ("numbers", "floats", "activation", "whole", "test", "truth")
PLACE = "SourceLocation place = SourceLocation::here()"


def rows(text):
    """Yields the name and the arguments of every macro call. Quotes of strings are removed."""
    for call in re.finditer(r"^VOLTA_(\w+)\(", text, re.MULTILINE):
        arguments, argument, depth, at = [], "", 1, call.end()
        while depth > 0:
            token = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL).match(text, at).group()
            at += len(token)
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth == 0 or (token == "," and depth == 1):
                arguments.append(re.sub(r'"\s*"', "", argument.strip()))
                argument = ""
            else:
                argument += token
        yield call.group(1), [re.sub(r'^"(.*)"$', r"\1", a, flags=re.DOTALL) for a in arguments]


class Function:
    """A public function: its parameters, whether it is a method of Tensor too, and its comment."""

    def __init__(self, name, parameters, method, comment):
        self.name, self.method, self.comment = name, method, comment
        self.parameters = parameters.split(", ")


def with_place(parameters):
    """The parameters and the source location of the call, unless all parameters are Operands, which have it."""
    operands = all(p.startswith("const Operand&") for p in parameters.split(", "))
    return parameters if operands else parameters + ", " + PLACE


def functions(text):
    for macro, arguments in rows(text):
        if macro == "DECLARATION":
            name, kind, parameters, comment = arguments
            yield Function(name, parameters, kind == "method", comment)
            continue
        name, kind, _, comment = arguments[:4]
        by_hand = re.fullmatch(r'(written|free)\("(.*)"\)', kind, re.DOTALL)
        if kind == "none":
            continue
        if comment == "":
            sys.exit(f"{TABLE}: {name} has no comment")
        if by_hand:
            yield Function(name, with_place(by_hand.group(2)), by_hand.group(1) == "written", comment)
        elif kind in UNARY:
            yield Function(name, with_place("const Tensor& x"), True, comment)
        elif kind in ("binary", "arithmetic", "exchanged"):
            yield Function(name, "const Operand& a, const Operand& b", kind != "arithmetic", comment)
        else:
            sys.exit(f"{TABLE}: {name}: there is no function '{kind}'")


def wrapped(start, parameters, end):
    """A declaration in lines of at most WIDTH columns, as clang-format breaks them."""
    lines, line = [], start
    for i, parameter in enumerate(parameters):
        part = parameter + (end if i + 1 == len(parameters) else ",")
        if len(line) + len(part) + (0 if line.endswith(("(", " " * len(start))) else 1) > WIDTH:
            lines.append(line)
            line = " " * len(start)
        line += part if line.endswith("(") or line.strip() == "" else " " + part
    return lines + [line]


def declarations(all_functions):
    lines = []
    for f in all_functions:
        lines += ["// " + line for line in textwrap.wrap(f.comment, WIDTH - 3)]
        lines += wrapped(f"VOLTA_API Tensor {f.name}(", f.parameters, ");")
    return lines


def methods(all_functions):
    lines = []
    for f in all_functions:
        if not f.method:
            continue
        binary = f.parameters == ["const Operand& a", "const Operand& b"]
        parameters = ["const Operand& other"] if binary else f.parameters[1:]
        lines += wrapped(f"  Tensor {f.name}(", parameters, ") const;")
    return lines


def with_lines(path, text, indent, lines):
    """The header's text with these lines between the two marks."""
    first, last = indent + FIRST, indent + LAST
    if text.count(first) != 1 or text.count(last) != 1:
        sys.exit(f"{path}: the marks of make_operations.py are not there once each")
    before, rest = text.split(first)
    return before + "\n".join([first, ""] + lines + ["", last]) + rest.split(last)[1]


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    found = list(functions((ROOT / TABLE).read_text(encoding="utf-8")))
    stale = []
    for path, indent, lines in (("include/volta/ops.h", "", declarations(found)),
                                ("include/volta/tensor.h", "  ", methods(found))):
        text = (ROOT / path).read_text(encoding="utf-8")
        made = with_lines(path, text, indent, lines)
        if made == text:
            continue
        stale.append(path)
        if not check:
            (ROOT / path).write_text(made, encoding="utf-8")
    if check and stale:
        sys.exit(f"{', '.join(stale)}: not what {TABLE} says; {sys.argv[0]} writes them anew")


main()
