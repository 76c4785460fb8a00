#!/bin/sh
# The manual page of a program and of its commands, made of what they print for --help.
#
#   manual.sh PROGRAM VERSION     the page, on standard output
set -eu

program=$1 version=$2
name=$(basename "$program")

# Text for troff: no character is an escape, no line a request.
plain() { sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"; }

summary() { "$program" "$@" --help | sed -n 1p | plain; }

commands() { "$program" "$@" --help | sed -n '/^Subcommands:$/,/^$/s/^  \([a-z-]*\) .*/\1/p'; }

# Of "  --flag TYPE   text" a paragraph with a tag, and of "Options:" a title.
body() {
  "$program" "$@" --help | sed 1d | plain | awk '
    /^          / { sub(/^ +/, ""); print; next }
    /^  [^ ]/ {
      sub(/^ +/, ""); text = ""
      if (match($0, /   +/)) { text = substr($0, RSTART + RLENGTH); $0 = substr($0, 1, RSTART - 1) }
      print ".TP\n\\fB" $0 "\\fR"; if (text != "") print text; next
    }
    NF { print ".PP\n" $0 }'
}

section() {  # REQUEST COMMAND...
  request=$1
  shift
  printf '.%s "%s %s"\n' "$request" "$name" "$*"
  summary "$@"
  body "$@"
}

printf '.TH %s 1 "" "Lockstep %s" "Lockstep"\n.SH NAME\n' "$name" "$version"
printf '%s \\- %s\n.SH DESCRIPTION\n' "$name" "$(summary | sed 's/\.$//')"
body
for command in $(commands); do
  section SH "$command"
  for inner in $(commands "$command"); do
    section SS "$command" "$inner"
  done
done
