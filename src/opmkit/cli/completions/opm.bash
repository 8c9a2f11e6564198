# bash completion for opm

# Rejoin the words of the command line up to the cursor: bash also splits them at "=" and ":".
__opm_words() {
  local line=${COMP_LINE:0:COMP_POINT} index word
  words=()
  for ((index = 0; index <= COMP_CWORD; index++)); do
    word=${COMP_WORDS[index]}
    if [ "$index" = 0 ] || [[ $line == [[:space:]]* ]]; then
      line=${line#"${line%%[![:space:]]*}"}
      words+=("")
    fi
    [ "$index" = "$COMP_CWORD" ] && word=$line
    words[${#words[@]} - 1]+=$word
    line=${line#"$word"}
  done
}

# Show candidates with their descriptions, in the width of the terminal.
__opm_describe() {
  local index value text longest=0
  for value in "${values[@]}"; do
    ((${#value} > longest)) && longest=${#value}
  done
  for index in "${!values[@]}"; do
    [ -n "${texts[index]}" ] || continue
    printf -v text '%-*s  (%s)' "$longest" "${values[index]}" "${texts[index]}"
    ((${#text} < ${COLUMNS:-80})) || text=${text:0:${COLUMNS:-80} - 2}…
    COMPREPLY[index]=$text
  done
}

__opm_complete() {
  local words values=() texts=() line value directive=0 program prefix
  __opm_words
  program=${words[0]/#\~\//$HOME/}
  prefix=${words[${#words[@]} - 1]}
  prefix=${prefix%"$2"} # what readline does not replace
  while IFS= read -r line; do
    value=${line%%$'\t'*}
    if [[ $line =~ ^:[0-9]+$ ]]; then
      directive=${line#:}
    elif [ -n "$value" ]; then
      values+=("${value#"$prefix"}")
      [ "$value" = "$line" ] && texts+=("") || texts+=("${line#*$'\t'}")
    fi
  done < <("$program" @COMPLETE@ "${words[@]:1}" 2>/dev/null)

  COMPREPLY=("${values[@]}")
  [[ ${#values[@]} -gt 1 && $COMP_TYPE =~ ^(33|63|64)$ ]] && __opm_describe # a list is shown, nothing is inserted
  {
    ((directive & 2)) && compopt -o nospace
    ((directive & 4)) && compopt +o default
    ((directive & 16)) && compopt +o default -o dirnames
  } 2>/dev/null # bash 3 has no compopt
  return 0
}

complete -o default -F __opm_complete opm
