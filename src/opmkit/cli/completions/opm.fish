# fish completion for opm

function __opm_paths --argument-names kind current --description 'Complete a path, behind "--flag=" too'
    set -l flag ''
    if string match --quiet --regex '^-[^=]*=' -- $current
        set flag (string split --max 1 '=' -- $current)[1]=
        set current (string split --max 1 '=' -- $current)[2]
    end
    if test $kind = directories
        printf '%s\n' $flag(__fish_complete_directories "$current")
    else
        printf '%s\n' $flag(__fish_complete_path "$current")
    end
end

function __opm_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    set -l program (string replace --regex '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    set -l lines ($program @COMPLETE@ $words "$current" 2>/dev/null)
    set -l directive (string replace ':' '' -- $lines[-1])
    set -e lines[-1]
    if set -q lines[1]
        printf '%s\n' $lines
    else if test (math "floor($directive / 16) % 2") = 1
        __opm_paths directories "$current"
    else if test (math "floor($directive / 4) % 2") = 0
        __opm_paths files "$current"
    end
end

complete --command opm --erase
complete --command opm --no-files --arguments '(__opm_complete)'
