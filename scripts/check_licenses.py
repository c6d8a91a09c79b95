"""Checks licenses and sources of crates against deny.toml, from `cargo metadata` on standard input.

Replaces `cargo deny check licenses sources` if that is not installed. Limits: supports SPDX
expressions with AND, OR, WITH and parentheses, and the older `A/B`; no exceptions for single crates.
"""

import json
import re
import sys
import tomllib

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def allowed(expression, licenses):
    """Whether one of the choices that an SPDX expression offers is in `licenses`."""
    tokens = re.findall(r"[()]|[A-Za-z0-9.+-]+", expression.replace("/", " OR "))

    def alternatives():
        result = conjunction()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            right = conjunction()
            result = result or right
        return result

    def conjunction():
        result = term()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            right = term()
            result = result and right
        return result

    def term():
        if not tokens:
            raise ValueError(f"`{expression}` ends too soon")
        token = tokens.pop(0)
        if token == "(":
            result = alternatives()
            if not tokens or tokens.pop(0) != ")":
                raise ValueError(f"`{expression}` lacks a closing parenthesis")
            return result
        if tokens and tokens[0] == "WITH":
            tokens.pop(0)
            token += " WITH " + tokens.pop(0)
        return token in licenses

    result = alternatives()
    if tokens:
        raise ValueError(f"`{expression}` has `{tokens[0]}` too much")
    return result


def self_test():
    licenses = {"MIT", "Apache-2.0", "Unicode-3.0"}
    for expression, expected in {
        "MIT": True,
        "GPL-3.0-only": False,
        "MIT/GPL-3.0-only": True,
        "(MIT OR GPL-3.0-only) AND Unicode-3.0": True,
        "MIT AND GPL-3.0-only": False,
        "Apache-2.0 WITH LLVM-exception": False,
        "Apache-2.0 WITH LLVM-exception OR MIT": True,
    }.items():
        assert allowed(expression, licenses) is expected, expression


def main():
    self_test()
    with open(sys.argv[1], "rb") as file:
        rules = tomllib.load(file)
    licenses = set(rules["licenses"]["allow"])
    packages = json.load(sys.stdin)["packages"]
    mistakes = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] not in (None, CRATES_IO):
            mistakes.append(f"{name}: comes from {package['source']}, not from the registry")
        if not package["license"]:
            mistakes.append(f"{name}: states no license")
        elif not allowed(package["license"], licenses):
            mistakes.append(f"{name}: `{package['license']}` is not allowed by {sys.argv[1]}")
    if mistakes:
        sys.exit("error: " + "\nerror: ".join(mistakes))
    print(f"licenses and sources: {len(packages)} crates checked, all allowed")


if __name__ == "__main__":
    main()
