function _duly_completion;
    set -l words (commandline -cp);
    set -l word (commandline -t);
    set -l response (env _DULY_COMPLETE=fish_complete COMP_WORDS="$words" COMP_CWORD="$word" \
        duly);
    for completion in $response;
        set -l part (string split -m 1 "," -- $completion);
        switch $part[1];
            case dir; __fish_complete_directories $part[2];
            case file; __fish_complete_path $part[2];
            case plain; printf '%s\n' $part[2];
        end;
    end;
end;

complete --no-files --command duly --arguments "(_duly_completion)";

