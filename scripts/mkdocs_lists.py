"""A hook of mkdocs (mkdocs.yml): separates lists from the paragraph before them by a blank line, which
Python's Markdown requires and GitHub's does not."""
import re


def on_page_markdown(markdown, **_):
    lines = []
    in_code = False
    for line in markdown.split("\n"):
        before = lines[-1] if lines else ""
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code and re.match(r"(-|\d+\.) ", line) and before.strip() and not re.match(r"\s|(-|\d+\.) ", before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
