# Gives addresses, routes and neighbours back to an interface. The arguments are the record that this script is in, a file
# for messages, the interface's number, and three for each step: the object that it is about, if it must succeed, its kind,
# and words or a message for `ip`. Says what the interface did not take, or removes the record.
file=$1 message=$2 index=$3
shift 3
set -f

# Who waited for the answer may have been killed.
refuse() {
    rm -f "$file.part"
    printf '%s\n' "$1" 2>/dev/null || printf 'linecard: %s\n' "$1" >&2
    exit 1
}

# It has its number still if it was renamed.
look() {
    links=$(ip -o link 2>&1) || refuse "ip -o link: $links"
    link=$(printf '%s\n' "$links" | grep "^$index: ")
    near=$(printf '%s\n' "$link" | sed 's/^[0-9]*: \([^:@]*\).*/\1/')
}

step() {
    case $1 in
    far) ip $2 ;;
    near) ip $2 dev "$near" ;;
    # `ip` reads a message more than once.
    *) printf "$2" >"$message" && ip "$1" restore <"$message" ;;
    esac
}

give_back() {
    printf x 2>/dev/null >"$message" || refuse "cannot write $message: it needs a folder with space that can be written"
    look
    refused=
    while [ "$near" ] && [ $# -gt 2 ]; do
        if ! answer=$(step "$2" "$3" 2>&1 >/dev/null) && [ "$1" ] && [ -z "$refused" ]; then
            refused="$1: $(printf '%s\n' "${answer:-refused}" | head -n 1)"
        fi
        shift 3
    done
    [ -z "$refused" ] || refuse "$near did not get back all that was moved ($refused): have it up, with its MTU, and run \`sh $file\`"
    rm -f "$file" "$file.part"
    rmdir "${file%/*}" 2>/dev/null
    if [ "$near" ]; then
        printf '%s\n' "$near got back what was moved" 2>/dev/null
    else
        printf '%s\n' "interface $index is gone, and with it what it had" 2>/dev/null
    fi
    exit 0
}
