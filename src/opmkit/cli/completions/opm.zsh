#compdef opm
# zsh completion for opm: source it, or store it as "_opm" in a directory of $fpath

_opm() {
  local -a lines values nospace
  local line directive=0
  lines=("${(@f)$("${(Q)words[1]/#\~\//$HOME/}" @COMPLETE@ "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  for line in $lines; do
    if [[ $line == :<-> ]]; then
      directive=${line#:}
    elif [[ $line == *$'\t'* ]]; then
      values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    else
      values+=("${line//:/\\:}")
    fi
  done

  ((directive & 2)) && nospace=(-S '')
  if (($#values)); then
    _describe -V completions values $nospace
    return
  fi
  [[ $PREFIX == -*=* ]] && compset -P '*='
  if ((directive & 16)); then
    _files -/
  elif ((!(directive & 4))); then
    _files
  fi
}

if [[ $funcstack[1] == _opm ]]; then
  _opm "$@"
else
  if ! (($+functions[compdef])); then
    autoload -Uz compinit && compinit -i
  fi
  compdef _opm opm
fi
