# complete.zsh SCRIPT 'command line': what zsh offers for the end of the line, one a line.
setopt extendedglob
zmodload zsh/zpty || exit 3
zpty inner zsh -f -i
zpty -w inner 'PS1=; unsetopt zle_bracketed_paste 2>/dev/null; stty -echo'
zpty -w inner 'autoload -Uz compinit; compinit -u -D; source '${(q)1}
zpty -w inner 'compadd() { if [[ " $* " != *" -"[OAD]" "* ]]; then local -a hits; builtin compadd -A hits "$@"; print -r -l -- "offer:"$^hits; fi; builtin compadd "$@" }'
zpty -w inner 'finish() { print -r "offered"; exit }; comppostfuncs=(finish); bindkey "^I" complete-word'
zpty -w inner 'print ready"(now)"'
while zpty -r inner line; do [[ $line == *'ready(now)'* ]] && break; done
zpty -w -n inner "$2"$'\t'
while zpty -r inner line; do
  line=${line%%[$'\r\n']##}
  [[ $line == *offer:* ]] && print -r -- "${line##*offer:}"
  [[ $line == *offered* ]] && break
done
zpty -d inner
