_duly_completion() {
    local IFS=$'\n' response completion type value
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
        _DULY_COMPLETE=bash_complete "$1")
    while IFS= read -r completion; do
        type=${completion%%,*} value=${completion#*,}
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<< "$response"
    return 0
}

complete -o nosort -F _duly_completion duly

