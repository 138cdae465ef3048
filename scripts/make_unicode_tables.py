#!/usr/bin/env python3
"""Writes src/encoding/unicode_tables.inc: the code points of the Unicode classes that tokenizers distinguish.

    make_unicode_tables.py > src/encoding/unicode_tables.inc

Letters are general categories L*, numbers N*, as of the Unicode version of Python's unicodedata; white space is the
property White_Space.
"""
import sys
import unicodedata

WHITE_SPACE = [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F,
               0x3000]


def ranges(members):
    found = []
    for point in range(0x110000):
        if not members(point):
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def table(name, members):
    lines, line = [], "   "
    for first, last in ranges(members):
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > 100:
            lines.append(line)
            line = "   "
        line += entry
    lines.append(line)
    return "\n".join([f"constexpr CodePointRange {name}[] = {{", *lines, "};"])


def main():
    starts = lambda letter: lambda point: unicodedata.category(chr(point)).startswith(letter)
    print(f"// Made by scripts/make_unicode_tables.py of Unicode {unicodedata.unidata_version}.")
    print("// clang-format off")
    print(table("kLetters", starts("L")))
    print(table("kNumbers", starts("N")))
    print(table("kWhiteSpace", set(WHITE_SPACE).__contains__))
    return 0


if __name__ == "__main__":
    sys.exit(main())
