# Gives addresses, routes and neighbours back to an interface. The arguments are the file that this script is recorded in, a
# file for messages, the network namespace, the interface's number, and three for each step: whether it must succeed, its
# kind, and words or a message for `ip`. Says that the interface did not take all, or removes the record.
file=$1 message=$2 namespace=$3 index=$4
shift 4
PATH=$PATH:/usr/sbin:/sbin
set -f

# Who waited for the answer may have been killed.
refuse() {
    rm -f "$file.part"
    printf '%s\n' "$1" 2>/dev/null || printf 'linecard: %s\n' "$1" >&2
    exit 1
}

step() {
    case $1 in
    far) ip $2 ;;
    near) ip $2 dev "$near" ;;
    # `ip` reads a message more than once.
    *) printf "$2" >"$message" && ip "$1" restore <"$message" ;;
    esac
}

[ "$(readlink /proc/self/ns/net)" = "$namespace" ] ||
    refuse "the addresses are of the network namespace $namespace: run \`sh $file\` there (\`ip netns exec NAME\`)"
links=$(ip -o link 2>&1) || refuse "ip -o link: $links"
# It has its number still if it was renamed. If it is gone, so is all that it had.
near=$(printf '%s\n' "$links" | sed -n "s/^$index: \([^:@]*\).*/\1/p")
refused=
while [ "$near" ] && [ $# -gt 2 ]; do
    answer=$(step "$2" "$3" 2>&1 >/dev/null) || [ "$1" = may ] || refused=${refused:-${answer:-no answer}}
    shift 3
done
[ -z "$refused" ] ||
    refuse "$near did not get back all that was moved ($(printf '%s\n' "$refused" | head -n 1)): have it up, with its MTU, and run \`sh $file\`"
rm -f "$file" "$file.part"
rmdir "${file%/*}" 2>/dev/null
exit 0
