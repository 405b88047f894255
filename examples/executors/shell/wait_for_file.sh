#!/bin/sh
# An executor in POSIX sh: waits until a file exists, and returns its size.
# It speaks the protocol of docs/reference/executor-protocol.md over stdin and stdout.

# Orders are compact JSON with `type` and `execution_id` first and `parameters` last, so that
# sed can read them. A path with a backslash in it would need a JSON parser: it is refused.
execution_of() { printf '%s\n' "$1" | sed -n 's/^{"type":"[a-z]*","execution_id":"\([^"]*\)".*/\1/p'; }
path_of() { printf '%s\n' "$1" | sed -n 's/.*"parameters":.*"path": *"\([^"\\]*\)".*/\1/p'; }

work() {
    while [ ! -e "$2" ]; do sleep 1; done
    printf '{"type":"result","execution_id":"%s","data":{"path":"%s","bytes":%d}}\n' \
        "$1" "$2" "$(wc -c < "$2")"
}

worker=
running=
while IFS= read -r order; do
    case $order in
    '{"type":"hello"'*)
        printf '{"type":"ready","protocol":1,"task_types":["wait_for_file"]}\n' ;;
    '{"type":"start"'*)
        running=$(execution_of "$order")
        path=$(path_of "$order")
        if [ -z "$path" ]; then
            printf '{"type":"error","execution_id":"%s","error_class":"invalid","message":"%s"}\n' \
                "$running" 'parameters.path must be a text without backslashes'
        else
            printf '{"type":"started","execution_id":"%s"}\n' "$running"
            work "$running" "$path" &   # in the background: orders must be read meanwhile
            worker=$!
        fi ;;
    '{"type":"cancel"'*)
        if [ "$(execution_of "$order")" = "$running" ] && kill "$worker" 2> /dev/null; then
            wait "$worker"
            printf '{"type":"stopped","execution_id":"%s"}\n' "$running"
        fi ;;
    esac
done
# The end of stdin is the order to go.
[ -n "$worker" ] && kill "$worker" 2> /dev/null
exit 0
