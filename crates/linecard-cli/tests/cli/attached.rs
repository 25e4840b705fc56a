//! Two connected ports, seen from outside: captures as ports, lines of JSON, the live view and metrics. Traffic
//! through live interfaces is tested elsewhere.

use crate::folder::{CommandOutput, Folder, capture};
use crate::support::linecard;
use linecard_testkit::lab::Namespace;
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn port(path: &Path) -> String {
    format!("file:{}", path.display())
}

fn bulk() -> String {
    port(&capture("tcp4-bulk.pcap"))
}

/// Statistics in lines of JSON: each is an object, the last one has all.
fn account(stdout: &str) -> Json {
    let lines: Vec<Json> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, others) = lines.split_last().unwrap();
    assert!(others.iter().all(|line| line["type"] == "interval"), "{stdout}");
    assert_eq!((&last["type"], &last["job"]), (&"final".into(), &"attach".into()));
    last.clone()
}

fn done(outcome: &CommandOutput) {
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

/// The same exit code as of `coalesce` and `segment`.
#[test]
fn a_capture_of_an_unknown_link_type_is_copied_and_said() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let mut bytes = folder.read("in.pcap");
    bytes[20] = 147;
    folder.write("user.pcap", &bytes);
    let outcome = folder.run(&["attach", "file:user.pcap", "file:out.pcapng"]);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    let last = outcome.stderr.lines().last().unwrap_or_default();
    assert!(last.contains("user.pcap: link type 147 (80 packets) passed unchanged"), "{last}");
    assert!(folder.path("out.pcapng").exists());
}

#[test]
fn a_descriptor_is_told_that_packets_pass() {
    let folder = Folder::new();
    let outcome = folder.run(&["attach", &bulk(), "file:out.pcap", "--ready-fd", "2"]);
    done(&outcome);
    assert!(outcome.stderr.lines().any(|line| line == "READY=1"), "{outcome:?}");
    let arguments = ["attach", &bulk(), "file:out.pcap", "--ready-fd", "999"];
    folder.refuses(2, &arguments, &["--ready-fd 999", "Bad file descriptor", "999>FILE"]);
}

/// Lines for people have the name of the command, and those for the journal of systemd a priority each.
#[test]
fn lines_for_the_journal_have_priorities() {
    let folder = Folder::new();
    let stderr = fs::File::options().create(true).append(true).open(folder.path("stderr")).unwrap();
    let file = stderr.metadata().unwrap();
    let stream = format!("{}:{}", file.dev(), file.ino());
    for (stream, more, is_journal) in
        [(&*stream, &[][..], true), (&*stream, &["--log", "text"], false), ("1:2", &[], false)]
    {
        folder.write("stderr", b"");
        let mut command = folder.command(&["attach", &bulk(), "file:out.pcap"]);
        command.args(more).env("JOURNAL_STREAM", stream);
        assert!(command.stderr(stderr.try_clone().unwrap()).status().unwrap().success());
        let lines = String::from_utf8(folder.read("stderr")).unwrap();
        let begin = if is_journal { "<6>" } else { "linecard: " };
        assert!(lines.lines().any(|line| line.starts_with(begin)), "{stream} {more:?}: {lines}");
        assert_eq!(lines.contains("linecard: "), !is_journal, "{lines}");
    }
    let outcome = folder.run(&["attach", &bulk(), "file:missing/a.pcap", "--log", "journal"]);
    assert!(
        outcome.stderr.lines().last().is_some_and(|line| line.starts_with("<3>")),
        "{outcome:?}"
    );
}

/// Only on request: counting takes time per packet.
#[test]
fn the_largest_flows_are_listed() {
    let folder = Folder::new();
    let run = |more: &[&str]| {
        let output = folder.run(&[&["attach", &bulk(), "file:out.pcap", "--json"], more].concat());
        done(&output);
        account(&output.stdout)
    };
    assert!(run(&[]).get("flows").is_none());
    let listed = run(&["--flows", "1"]);
    let flow = &listed["flows"][0]["value"];
    assert_eq!(listed["flows"].as_array().unwrap().len(), 1);
    assert_eq!((&flow["packets"], &flow["reason"]), (&46.into(), &"no-payload".into()));
    assert_eq!(flow["merged"], listed["merging"]["merged"], "{listed:#}");
}

#[test]
fn a_capture_goes_through_and_is_complete() {
    let folder = Folder::new();
    for deployment in ["inline", "shared", "dedicated"] {
        let out = format!("file:{deployment}.pcap");
        let outcome = folder.run(&["attach", &bulk(), &out, "--deployment", deployment, "--json"]);
        done(&outcome);
        let account = account(&outcome.stdout);
        let count = |section: &str, key: &str| account[section][key].as_u64().unwrap();
        let (came, went) = (count("near", "received"), count("far", "transmitted"));
        assert!(went > 0 && went * 4 < came * 3, "{deployment}: {came} became {went}");
        assert_eq!(came - count("merging", "merged"), went);
        for way in ["unaccounted_ingress", "unaccounted_egress"] {
            assert_eq!(account["check"][way], 0, "{deployment}: {account}");
        }
        // Merged packets are segmented again into the original number.
        let text =
            folder.succeeds(&["coalesce", &format!("{deployment}.pcap"), "again.pcap", "--json"]);
        let again: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(again["merging"]["packets_in"], went, "the file has what was transmitted");
        assert!(outcome.stderr.lines().all(|line| line.starts_with("linecard: file:")));
    }
    let outcome = folder.run(&["attach", &bulk(), "file:same.pcap", "--merge", "none"]);
    done(&outcome);
    let text = folder.succeeds(&["coalesce", "same.pcap", "again.pcap", "--json"]);
    let again: Json = serde_json::from_str(&text).unwrap();
    let whole = fs::read(capture("tcp4-bulk.pcap")).unwrap().len();
    let bytes = again["merging"]["bytes_in"].as_u64().unwrap();
    assert!(bytes > 0 && bytes < whole as u64);
}

#[test]
fn the_recorded_pace_is_kept() {
    let folder = Folder::with_capture("udp4.pcap");
    let near = "file:in.pcap,recorded";
    // A view or a pause of the machine takes nothing away: it takes as long at least.
    let times = |name: &str| {
        let bytes = folder.read(name);
        let at = |offset: usize| {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            // The project's own captures have nanoseconds or microseconds.
            let unit = if bytes[..4] == [0x4D, 0x3C, 0xB2, 0xA1] { 1 } else { 1_000 };
            let ns = u64::from(word(offset)) * 1_000_000_000 + u64::from(word(offset + 4)) * unit;
            (ns, offset + 16 + word(offset + 8) as usize)
        };
        let (first, mut next) = at(24);
        let mut last = first;
        while next < bytes.len() {
            (last, next) = at(next);
        }
        last - first
    };
    done(&folder.run(&["attach", near, "file:out.pcap", "--merge", "none"]));
    let (before, after) = (times("in.pcap"), times("out.pcap"));
    assert!(after >= before * 9 / 10, "{before} ns became {after} ns");
}

#[test]
fn standard_output_is_data_then() {
    let folder = Folder::new();
    let outcome = folder.command(&["attach", &bulk(), "file:-", "--json"]).output().unwrap();
    assert_eq!(outcome.status.code(), Some(0));
    assert_eq!(outcome.stdout[..4], [0x0A, 0x0D, 0x0D, 0x0A], "pcapng");
    let stderr = String::from_utf8(outcome.stderr).unwrap();
    let json = stderr.lines().find(|line| line.starts_with('{')).unwrap();
    assert!(account(json)["far"]["transmitted"].as_u64() > Some(0));
}

#[test]
fn captures_that_cannot_be_are_refused_in_a_line() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("none.pcap", b"no capture");
    let near = "file:in.pcap";
    folder.refuses(1, &["attach", "file:gone.pcap", "file:out.pcap"], &["cannot open gone.pcap"]);
    folder.refuses(1, &["attach", "file:.", "file:out.pcap"], &["cannot open ."]);
    folder.refuses(
        1,
        &["attach", "file:none.pcap", "file:out.pcap"],
        &["none.pcap: not a capture"],
    );
    folder.refuses(1, &["attach", near, "file:no/out.pcap"], &["no/out.pcap", "make its folder"]);
    folder.refuses(2, &["attach", near, "file:./in.pcap"], &["same file"]);
    folder.refuses(2, &["attach", near, near], &["cannot be joined to", "which is the same"]);
    folder.refuses(6, &["attach", near, "file:out.pcap", "--workers", "2"], &["--workers 1"]);
    folder.refuses(6, &["attach", near, "file:out.pcap,recorded"], &["recorded"]);
    folder.refuses(2, &["attach", "file:", "file:out.pcap"], &["`file:`", "KIND:NAME"]);
}

#[test]
fn ports_that_do_not_fit_are_refused_before_they_are_opened() {
    let folder = Folder::new();
    folder.refuses(
        6,
        &["attach", "xdp:lcnone", "tun:lcother"],
        &["use tap:lcother instead of tun:lcother"],
    );
    folder.refuses(
        6,
        &["attach", "tun:lcnone", "tap:lcother"],
        &["use tap:lcnone instead of tun:lcnone"],
    );
    folder.refuses(6, &["attach", "packet:lcnone", "tap:lc%d"], &["`%`"]);
    let workers = ["attach", "packet:lcnone", "tap:lcother", "--workers"];
    folder.refuses(6, &[&workers[..], &["300"]].concat(), &["256 queues", "`--workers 256`"]);
}

/// Nothing begins when one of the threads cannot: existing files are not replaced.
#[test]
fn a_core_that_is_not_there_is_refused_before_anything_begins() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("out.pcap", b"precious");
    // Of two threads, one each time.
    for cores in ["0,1023", "1023,0"] {
        let arguments = ["attach", "file:in.pcap", "file:out.pcap", "--deployment", "shared"];
        let arguments = [&arguments[..], &["--cores", cores]].concat();
        folder.refuses(2, &arguments, &["--cores", "cannot be pinned to core 1023"]);
        assert_eq!(folder.read("out.pcap"), b"precious");
    }
    assert_eq!(folder.names(), ["in.pcap", "out.pcap"]);
}

#[test]
fn damage_ends_it_and_a_full_disk_leaves_nothing() {
    let folder = Folder::new();
    let bytes = fs::read(capture("tcp4-bulk.pcap")).unwrap();
    folder.write("cut.pcap", &bytes[..bytes.len() - 7]);
    let outcome = folder.run(&["attach", "file:cut.pcap", "file:out.pcap"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert!(outcome.stderr.lines().last().unwrap().contains("cut.pcap: damaged at byte"));
    assert!(folder.read("out.pcap").len() > 1_000, "everything before it");

    let outcome = folder.run(&["attach", "file:cut.pcap", "file:/dev/full"]);
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.contains("/dev/full: No space left"), "{outcome:?}");
    assert_eq!(folder.names(), ["cut.pcap", "out.pcap"]);
}

/// Runs a script in a network namespace of its own, with the command as `$0`; none, and said why,
/// where that is not possible.
fn in_namespace(folder: &Folder, what: &str, script: &str) -> Option<String> {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(why) => {
            linecard_testkit::skip(what, why);
            return None;
        }
    };
    let program = linecard();
    let script =
        format!("ip link set lo up && test -c /dev/net/tun || {{ echo SKIP; exit; }}\n{script}");
    let mut command = namespace.command("timeout");
    // A bound for what hangs: a busy machine takes minutes.
    command.args(["480", "bash", "-c", &script]).arg(program.get_program());
    let outcome: CommandOutput = command.current_dir(folder.path(".")).output().unwrap().into();
    if outcome.stdout.starts_with("SKIP") {
        linecard_testkit::skip(what, format_args!("it needs /dev/net/tun: {}", outcome.stderr));
        return None;
    }
    assert_eq!(outcome.code, Some(0), "{what}: {outcome:?}");
    Some(outcome.stdout)
}

/// Waits for the line that says where metrics are.
const PORT: &str = "\
for i in $(seq 200); do P=$(sed -n 's/.*metrics at http:..127.0.0.1:\\([0-9]*\\).metrics/\\1/p' err); \
test -n \"$P\" && grep -q 'runs as user' err && break; sleep 0.05; done\n";

#[test]
fn metrics_are_served_whatever_else_is_asked() {
    let folder = Folder::new();
    let script = format!(
        "\"$0\" attach tap:lcma tap:lcmb --metrics 0 --interval 100ms --json >out 2>err & L=$!
        {PORT}
        ask() {{ exec 3<>/dev/tcp/127.0.0.1/$P; printf '%b' \"$1\" >&3; timeout 10 cat <&3; exec 3>&-; }}
        exec 4<>/dev/tcp/127.0.0.1/$P; printf 'GET /met' >&4
        ask '\\xff\\x00\\x01 nonsense\\r\\n\\r\\n' | head -1
        (head -c 100000 /dev/zero >/dev/tcp/127.0.0.1/$P) 2>/dev/null
        ask 'GET / HTTP/1.1\\r\\n\\r\\n' | head -1
        ask 'DELETE /metrics HTTP/1.1\\r\\n\\r\\n' | head -1
        ask 'GET /metrics HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n'
        kill -INT $L; wait $L; echo code $?; grep -c interval out"
    );
    let Some(text) = in_namespace(&folder, "metrics", &script) else { return };
    let statuses: Vec<_> = text.lines().filter(|line| line.starts_with("HTTP/1.1")).collect();
    let numbers: Vec<_> = statuses.iter().map(|line| &line[9..12]).collect();
    assert_eq!(numbers, ["400", "404", "405", "200"], "{text}");
    assert!(
        text.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    for name in ["linecard_received_packets_total{port=\"near\",worker=\"0\"} ", "\n# EOF\n"] {
        assert!(text.contains(name), "no {name}: {text}");
    }
    assert!(text.contains("\ncode 0\n"), "{text}");
    let intervals: u64 = text.lines().last().unwrap().parse().unwrap();
    assert!(intervals > 0);
    let account = account(&String::from_utf8(folder.read("out")).unwrap());
    assert_eq!(account["check"]["unaccounted_ingress"], 0);
    let stderr = String::from_utf8(folder.read("err")).unwrap();
    assert!(stderr.contains("runs as user 65534"), "{stderr}");
}

#[test]
fn an_address_that_is_taken_is_refused_before_ports_are_opened() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["attach", "file:in.pcap", "file:out.pcap", "--metrics", &address];
    folder.refuses(6, &arguments, &["--metrics", &address]);
}

#[test]
fn a_capture_of_live_packets_is_completed_without_rights() {
    let folder = Folder::new();
    let script = "\
        mkdir own && chown 65534:65534 own && chmod 755 . && mkdir -m 1777 shared
        for out in own shared; do
            \"$0\" attach tap:lcca file:$out/x.pcapng --seconds 0.2 --json >out 2>err || cat err
            grep -c 'runs as user 65534' err; stat -c %u $out/x.pcapng; ls $out
        done
        \"$0\" attach tap:lcca file:x.pcapng --seconds 0.2 2>err; echo code $?; cat err; ls
        \"$0\" attach tap:lcca file:x.pcapng --seconds 0.2 --keep-rights >/dev/null 2>&1; echo code $?";
    let Some(text) = in_namespace(&folder, "a capture without rights", script) else { return };
    let completed = "1\n65534\nx.pcapng\n";
    let (once, rest) = text.split_at(completed.len());
    assert_eq!(once, completed, "{text}");
    assert!(rest.starts_with(completed), "{text}");
    let rest = &rest[completed.len()..];
    assert!(rest.starts_with("code 6\nlinecard: file:x.pcapng could not be completed"), "{text}");
    assert!(rest.ends_with("err\nout\nown\nshared\ncode 0\n"), "{text}");
}

/// Promise (Live interfaces): addresses and routes that `attach` moves are back after `kill -9`, too.
///
/// The process that restores them ignores signals to all processes of a service, and later input.
#[test]
fn addresses_that_were_moved_are_given_back_however_it_ends() {
    let folder = Folder::new();
    let script = "\
        ip link add lcwa type veth peer name lcwb && ip link set lcwa up && ip link set lcwb up
        ip address add 192.0.2.7/24 dev lcwa; ip address add 2001:db8::7/64 dev lcwa nodad
        ip route add default via 192.0.2.1 dev lcwa
        ip -6 route add default via 2001:db8::1 dev lcwa
        all() { ip -o address show scope global | awk '{print $2, $4}' | sort
            (ip route; ip -6 route) | grep default | awk '{print $3, $5}' | sort; }
        all
        for signal in KILL TERM; do : >err
            \"$0\" attach packet:lcwa tap:lctb --take-addresses >out 2>err & L=$!
            until grep -q 'attached:' err; do kill -0 $L || { cat err; break; }; sleep 0.05; done
            grep -o 'moved from .*recorded in ' err; grep -c 'still has' err; all
            H=$(grep -ls \"^PPid:.$L$\" /proc/[0-9]*/status | cut -d/ -f3)
            for other in TERM HUP USR1 USR2 ALRM PIPE; do kill -$other $H; done
            echo 'address add 203.0.113.9/24 dev lcwa' >/proc/$H/fd/0
            kill -$signal $L; wait $L
            for i in $(seq 200); do all | grep -q '2001:db8::1 lcwa' && break; sleep 0.05; done
            all
        done
        \"$0\" attach tap:lctb tap:lctc --take-addresses 2>&1 >out; echo code $?
        ip link add lcwc type veth peer name lcwd && ip link set lcwc up && ip link set lcwd up
        ip address add 198.51.100.7/24 dev lcwc
        ip route replace default nexthop via 192.0.2.1 dev lcwa nexthop via 198.51.100.1 dev lcwc
        \"$0\" attach packet:lcwa tap:lctb --take-addresses 2>&1 >out; echo code $?
        ip route | grep -c nexthop; ip -o -4 address show dev lcwa | awk '{print $4}'
        ip route del default; ip link property add dev lcwa altname lcwalt
        \"$0\" attach packet:lcwalt xdp:lcwa 2>&1 >out; echo code $?
        : >err; \"$0\" attach packet:lcwalt tap:lctb --take-addresses >out 2>err & L=$!
        until grep -q 'attached:' err; do kill -0 $L || { cat err; break; }; sleep 0.05; done
        \"$0\" attach xdp:lcwa tap:lctc 2>&1 >out; echo code $?
        H=$(grep -ls \"^PPid:.$L$\" /proc/[0-9]*/status | cut -d/ -f3); kill -KILL $H
        kill -TERM $L; wait $L; echo code $?; tail -n 1 err";
    let script = format!("export LINECARD_JOURNALS=$PWD/journals\n{script}");
    let Some(text) = in_namespace(&folder, "moved addresses", &script) else { return };
    let on = |device: &str| {
        format!(
            "{device} 192.0.2.7/24\n{device} 2001:db8::7/64\n192.0.2.1 {device}\n2001:db8::1 {device}\n"
        )
    };
    let moved = format!("moved from lcwa to lctb, until the end (recorded in \n0\n{}", on("lctb"));
    let both = [on("lcwa"), moved.clone(), on("lcwa"), moved, on("lcwa")].concat();
    assert!(text.starts_with(&both), "{text}");
    let refused = &text[both.len()..];
    assert!(refused.starts_with("linecard: addresses were not moved: only those"), "{text}");
    let shared = "linecard: addresses were not moved: `default` may have several next hops";
    assert!(refused.contains(shared), "{text}");
    let end = "code 6\n2\n192.0.2.7/24\n\
               linecard: xdp:lcwa cannot be joined to packet:lcwa, which is the same: name two ports\ncode 6\n\
               linecard: another process has attached xdp:lcwa: end it first";
    let (_, claimed) = refused.split_once(end).unwrap_or_else(|| panic!("{text}"));
    let killed = "code 6\ncode 12\nlinecard: the shell that was to give addresses and routes back to lcwa was killed";
    assert!(claimed.contains(killed), "{text}");
}

/// Labels, peers, metrics, routes of other tables and neighbours, too; ending the helper's `cat` moves nothing back
/// early.
#[test]
fn what_was_moved_comes_back_as_it_was() {
    let folder = Folder::new();
    let script = "\
        ip link add lcwa type veth peer name lcwb && ip link set lcwa up && ip link set lcwb up
        ip address add 10.9.0.2/24 dev lcwa; ip address add 10.9.0.3/24 dev lcwa label lcwa:1
        ip address add 10.8.0.2/24 brd 10.8.0.7 metric 500 dev lcwa
        ip address add 10.7.0.1 peer 10.7.0.2/32 scope link dev lcwa
        ip route del 10.8.0.0/24 dev lcwa; ip route add local 192.0.2.200 dev lcwa
        ip route add 10.8.0.0/24 dev lcwa proto kernel scope link src 10.8.0.2 metric 77
        ip route change $(ip route show 10.9.0.0/24) dev lcwa initcwnd 30; ip route add 203.0.113.0/24 dev lcwa proto kernel scope link
        ip address add 2001:db8:5::7/64 dev lcwa nodad metric 55; ip address add 2001:db8:5::8/64 dev lcwa nodad metric 66
        ip -6 route del 2001:db8:5::/64 dev lcwa metric 66; ip -6 route add 2001:db8:6::/64 dev lcwa proto kernel table 100
        ip address add 2001:db8::5/64 dev lcwa nodad preferred_lft 0
        ip route add default via 10.9.0.1 dev lcwa
        ip route add 10.61.0.0/16 via 10.9.0.1 dev lcwa table 100
        ip -6 route add 2001:db8:9::/48 via 2001:db8::1 dev lcwa table 100
        ip address add 2001:db8::7/64 dev lcwa nodad valid_lft 3000 preferred_lft 2000
        ip address add 2001:db8:1::7/64 dev lcwa; ip address add fe80::1234/64 dev lcwa
        ip route add 10.62.0.0/16 via 10.9.0.99 dev lcwa onlink tos 0x10 window 8000 rto_min 50ms quickack 1 initcwnd 20
        ip -6 route add 2001:db8:a::/48 via 2001:db8::9 dev lcwa expires 3000
        ip -6 route add 2001:db8:b::/48 via 2001:db8::9 dev lcwa table 100 src 2001:db8::7
        ip -6 route add default via fe80::99 dev lcwa
        for net in 1 2 3; do ip route append 10.63.0.0/16 via 10.9.0.$net dev lcwa; done
        ip neighbour add 10.9.0.77 lladdr 02:00:00:00:00:01 nud permanent protocol zebra dev lcwa
        ip neighbour add 10.9.0.78 lladdr 02:00:00:00:00:02 nud permanent router dev lcwa
        ip neighbour add 10.9.0.76 lladdr 02:00:00:00:00:04 nud permanent router extern_learn dev lcwa
        ip neighbour add 10.9.0.79 lladdr 02:00:00:00:00:03 nud noarp protocol static dev lcwa; ip neighbour add proxy 10.9.0.80 protocol zebra dev lcwa
        until test -z \"$(ip -6 address show dev lcwa tentative)\"; do sleep 0.05; done
        all() { ip -o address show scope global dev $1 | cut -d' ' -f6-; ip -o address show scope link dev $1 | grep 10.7
            for family in -4 -6; do ip -d $family route show table all dev $1; done | grep -v 'table local proto kernel\\|fe80::/'
            ip -o address show dev $1 | grep -o 'fe80::1234.*'; # The kernel lists neighbours as they hash, and hashes anew when its table grows.
            (ip neighbour show dev $1 nud permanent; ip neighbour show dev $1 nud noarp | grep -v ff02) | sort
            ip neighbour show proxy dev $1 | sort; }
        steady() { sed -E 's/(expires|valid_lft|preferred_lft) [0-9]+sec/\\1 some/g'; }
        children() { grep -ls \"^PPid:.$1$\" /proc/[0-9]*/status | cut -d/ -f3; }
        begin() { : >err; \"$0\" attach packet:lcwa tap:lctb --take-addresses >out 2>err & L=$!
            until grep -q 'attached:' err; do kill -0 $L || { cat err; break; }; sleep 0.05; done
            H=$(children $L); }
        all lcwa | steady >before; begin
        all lcwa | grep -v 'PERMANENT\\|NOARP\\|proxy'; ip -6 route show default | wc -l; all lctb | grep -c expires
        all lctb | grep -c '10.9.0.[23]/24\\|10.8.0.2/24\\|peer 10.7.0.2/32\\|db8::5/64\\|table 100\\|PERMANENT'
        C=$(children $H); kill -KILL $C
        until N=$(children $H) && test -n \"$N\" -a \"$N\" != \"$C\"; do sleep 0.05; done
        all lcwa | grep -c table; kill -TERM $L; wait $L; echo code $?; all lcwa | steady >after
        diff before after && echo equal
        ip rule add iif lcwa table 100; begin; grep -o '1 of `ip rule` name lcwa, and not lctb' err; ip rule del iif lcwa
        kill -KILL $L; wait $L; until test -z \"$(ip -o -4 address show dev lctb 2>&1 | grep 10.9)\"; do sleep 0.05; done
        until test \"$(all lcwa | wc -l)\" = \"$(wc -l <before)\"; do sleep 0.05; done
        all lcwa | steady >after; diff before after && echo equal after KILL
        equal() { until test -z \"$(ip -6 address show dev $1 tentative)\"; do sleep 0.05; done
            all $1 | steady >after; diff before after && echo equal, $2; ls j 2>&1 >/dev/null | grep -c 'No such'; }
        said() { sed -n 's/.*run `\\(sh [^`]*\\)`.*/\\1/p' err | tail -n 1; }
        begin; kill -KILL $H; until grep -q 'was killed: at the end run `sh' err; do sleep 0.05; done
        kill -TERM $L; wait $L; echo code $?; $(said) && equal lcwa 'by the script'
        begin; sh j/*.sh | sed 's/.*, process/process/'; kill -KILL $L $H; wait $L; all lcwa | grep -c via
        begin; grep -o 'lcwa got back what was moved (by an earlier start.*' err
        ip link set lcwa down; kill -TERM $L; wait $L; echo code $?; tail -n 1 err
        ip link set lcwa up; $(said) | sed 's/^/said: /'; equal lcwa 'up again'
        begin; ip link set lcwa down; kill -KILL $L; wait $L; until grep -q 'did not get back' err; do sleep 0.05; done
        tail -n 1 err; begin >refused; tail -n 1 refused; wait $L; echo code $?; ip link set lcwa up
        chmod 755 j; begin >refused; tail -n 1 refused | sed 's/.*mode 755//; s/`.*//'; wait $L; chmod 700 j
        begin; kill -TERM $L; wait $L; echo code $?; equal lcwa 'by the next start'
        begin; ip link set lcwa down; ip link set lcwa name lcwz; ip link set lcwz up; kill -TERM $L; wait $L; echo code $?
        all lcwz | sed s/lcwz/lcwa/ | steady >after; diff before after && echo equal, renamed
        ip link set lcwz down; ip link set lcwz name lcwa; ip link set lcwa up
        begin; kill -KILL $L $H; wait $L; ip link del lcwa; ip link add lcwa type veth peer name lcwb; ip link set lcwa up; ip link set lcwb up
        begin; grep -o 'is gone, and with it what it had' err; kill -TERM $L; wait $L; echo code $?; ls j 2>&1 >/dev/null | grep -c 'No such'";
    let script = format!("export LINECARD_JOURNALS=$PWD/j\n{script}");
    let Some(text) = in_namespace(&folder, "all that was moved", &script) else { return };
    let (back, rest) = text.split_once("equal\n").unwrap_or_else(|| panic!("{text}"));
    // Of IPv6, one default route; at the device nothing ends; before the end nothing is back.
    assert_eq!(back, "1\n0\n13\n0\ncode 0\n", "{text}");
    let refused = "linecard: lcwa did not get back all that was moved (route 10.";
    let mut lines = rest.lines();
    // The record is gone once all is back, and its folder with it.
    for expected in [
        "1 of `ip rule` name lcwa, and not lctb",
        "equal after KILL",
        "code 12",
        "lcwa got back what was moved",
        "equal, by the script",
        "1",
        "process",
        "0",
        "lcwa got back what was moved (by an earlier start",
        "code 12",
        refused,
        "said: lcwa got back what was moved",
        "equal, up again",
        "1",
        refused,
        &format!("linecard: addresses were not moved: {}", &refused["linecard: ".len()..]),
        "code 6",
        ", so others may have changed it: look at what is in it, then ",
        "code 0",
        "equal, by the next start",
        "1",
        "code 0",
        "equal, renamed",
        "is gone, and with it what it had",
        "code 0",
        "1",
    ] {
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with(expected), "{expected}: {text}");
    }
    assert_eq!(lines.next(), None, "{text}");
}

/// A start that fails on the way, as where the device has such a route already, leaves everything as it was.
#[test]
fn what_cannot_be_moved_is_as_it_was() {
    let folder = Folder::new();
    let script = "\
        ip link add lcwa type veth peer name lcwb && ip link set lcwa up && ip link set lcwb up
        ip address add 10.9.0.2/24 dev lcwa; ip address add 2001:db8::7/64 dev lcwa nodad
        ip route add 10.62.0.0/16 via 10.9.0.99 dev lcwa rto_min 50ms
        ip -6 route add 2001:db8:b::/48 via 2001:db8::9 dev lcwa src 2001:db8::7
        ip neighbour add 10.9.0.77 lladdr 02:00:00:00:00:01 nud permanent dev lcwa
        ip tuntap add lctb mode tap; ip link set lctb mtu 1200 up
        all() { ip -o address show dev lcwa; ip -d route show table all; ip -d -6 route show table all
            ip neighbour show dev lcwa nud permanent; }
        until test -z \"$(ip -6 address show up tentative)\"; do sleep 0.05; done
        all >before; \"$0\" attach packet:lcwa tap:lctb --take-addresses 2>&1 >out; echo code $?
        all >after; diff before after && echo equal
        ip link set lctb mtu 1500; ip address add 2001:db8:7::7/64 dev lcwa nodad
        ip -6 route add 2001:db8:99::/48 via 2001:db8:7::1 dev lcwa; ip address del 2001:db8:7::7/64 dev lcwa
        all >before; \"$0\" attach packet:lcwa tap:lctb --take-addresses 2>&1 >out; echo code $?
        all >after; grep -v lctb before >b; grep -v lctb after >a; diff b a && echo equal; ls $LINECARD_JOURNALS 2>&1 | grep -c 'No such'";
    let script = &format!("export LINECARD_JOURNALS=$PWD/j\n{script}");
    let Some(text) = in_namespace(&folder, "what cannot be moved", script) else { return };
    assert!(
        text.contains("linecard: addresses were not moved: address 2001:db8::7/64: "),
        "{text}"
    );
    let orphan = "code 6\nequal\nlinecard: addresses were not moved: route 2001:db8:99::/48 via 2001:db8:7::1";
    assert!(text.contains(orphan) && text.ends_with("code 6\nequal\n1\n"), "{text}");
}

/// Two interfaces, and what is compared: all addresses and routes.
const TWO: &str = "\
    export LINECARD_JOURNALS=$PWD/j
    for i in a c; do ip link add lcw$i type veth peer name lcx$i; ip link set lcw$i up; ip link set lcx$i up; done
    ip address add 10.9.0.1/24 brd + dev lcwa; ip address add 10.9.0.2/24 dev lcwa; ip address add 10.8.0.3/24 dev lcwc
    ip address add 2001:db8::1/64 dev lcwa nodad; ip address add 2001:db8:7::1/64 dev lcwa nodad
    settle() { until test -z \"$(ip -6 address show up tentative)\"; do sleep 0.05; done; }
    all() { ip -o address show; ip -d route show table all; ip -d -6 route show table all; }
    steady() { settle; all | grep -v \"${HIDDEN:-^$}\" | sed -E 's/(expires|valid_lft|preferred_lft) [0-9]+sec/\\1 some/g'; }
    begin() { : >err; \"$0\" attach packet:lcwa tap:lctb --take-addresses >out 2>err & L=$!
        until grep -q 'attached:' err; do kill -0 $L || { cat err; break; }; sleep 0.05; done; }
    round() { steady >before; begin; eval \"$2\"; kill -TERM $L; wait $L; code=$?; steady >after
        diff before after && echo \"$1: $code\"; }
    refused() { steady >before; \"$0\" attach packet:lcwa tap:lctb --take-addresses 2>&1 >out; echo code $?
        steady >after; diff before after && ls j 2>&1 | grep -c 'No such'; }
    settle\n";

/// Of the table `local` and of the kernel's own link-local address, what follows from addresses stays with them.
#[test]
fn routes_that_do_not_follow_from_addresses_come_back() {
    let folder = Folder::new();
    let script = "\
        ip address add fe80::7/64 dev lcwa; round 'link'
        ip -6 route change fe80::/64 dev lcwa proto kernel metric 256 initcwnd 12; ip address add fe80::8/10 dev lcwa
        round 'changed'; ip -6 route change fe80::/10 dev lcwa proto kernel metric 256 initcwnd 12; round 'wide'
        ip -6 route del fe80::/64 dev lcwa; round 'removed'
        ip address flush dev lcwa scope link; ip address add fe80::1/64 dev lcwa nodad; settle
        ip -6 route add default via fe80::99 dev lcwa
        round 'alone' 'ip -o address show dev lcwa | grep -c fe80::1/; ip -o address show dev lctb | grep -c fe80::1/'
        ip address del fe80::1/64 dev lcwa; ip -6 route del default; ip address add fe80::9/64 dev lcwa noprefixroute
        round 'without a route'
        ip -6 route replace 2001:db8:7::/64 dev lcwa proto kernel metric 256 expires 900; round 'ends'
        sysctl -qw net.ipv6.conf.all.forwarding=1; HIDDEN='anycast fe80::'
        ip route add local 10.44.0.0/16 dev lcwa table local proto kernel src 10.9.0.1
        ip route add broadcast 10.9.9.9 dev lcwa table local proto kernel
        ip -6 route add anycast 2001:db8::77 dev lcwa table local proto kernel; round 'entries'
        for net in 9.0.9 9.0.8 8.0.8; do ip route append default via 10.$net; done
        round 'before' 'ip route show default | cut -d\" \" -f3 | paste -sd,'
        ip route del default; ip route del default; ip route append default via 10.9.0.9; round 'behind'
        HIDDEN='anycast fe80::\\|broadcast 10.9.0.255'; ip address add 10.9.0.5/24 dev lcwc; round 'the same network' 'ip route show 10.9.0.0/24 | head -n 1 | cut -d\" \" -f3'";
    let script = [TWO, script].concat();
    let Some(text) = in_namespace(&folder, "routes of others", &script) else { return };
    let expected = "link: 0\nchanged: 0\nwide: 0\nremoved: 0\n0\n1\nalone: 0\nwithout a route: 0\nends: 0\nentries: 0\n\
                    10.9.0.9,10.9.0.8,10.8.0.8\nbefore: 0\nbehind: 0\nlctb\nthe same network: 0\n";
    assert_eq!(text, expected);
}

/// Before anything has moved.
#[test]
fn what_could_not_be_given_back_is_refused() {
    let folder = Folder::new();
    let script = "\
        ip route add 10.50.0.0/16 dev lcwc src 10.9.0.1; refused; ip route del 10.50.0.0/16
        ip route add unreachable 10.51.0.0/16 table 77 src 10.9.0.2; refused; ip route flush table 77
        ip -6 route add unreachable 2001:db8:51::/48 src 2001:db8::1; refused; ip -6 route del unreachable 2001:db8:51::/48
        for net in 8.0.8 9.0.9 8.0.9; do ip route append default via 10.$net; done; refused
        for net in 8.0.8 9.0.9 8.0.9; do ip route del default; done
        HIDDEN='local 10.9.0.2'; ip address add 10.9.0.2/32 dev lcwc; ip route add 10.50.0.0/16 dev lcwc src 10.9.0.2; round 'also of lcwc'
        ip -6 route add 2001:db8:52::/48 dev lcwa proto ra; echo 1 >/proc/sys/net/ipv6/conf/lcwa/accept_ra; refused
        echo 0 >/proc/sys/net/ipv6/conf/lcwa/accept_ra; round 'by a program'
        ip link add lcbr type bridge; ip link set lcwa master lcbr; refused; ip link set lcwa nomaster; ip link del lcbr
        ip address add 2001:db8::44/64 dev lcxa nodad; ip address add 2001:db8::44/64 dev lcwa
        until ip -6 address show dev lcwa | grep -q dadfailed; do sleep 0.05; done; settle() { true; }; refused";
    let script = [TWO, script].concat();
    let Some(text) = in_namespace(&folder, "what is refused", &script) else { return };
    let mut lines = text.lines();
    for expected in [
        "the kernel changes or removes `10.50.0.0/16 dev lcwc scope link src 10.9.0.1` with 10.9.0.1",
        "the kernel changes or removes `unreachable 10.51.0.0/16 table 77 src 10.9.0.2` with 10.9.0.2",
        "the kernel changes or removes `unreachable 2001:db8:51::/48 dev lo src 2001:db8::1 ",
        "`default via 10.9.0.9 dev lcwa` is between routes with the same destination and metric",
        "also of lcwc: 0",
        "`2001:db8:52::/48 proto ra metric 1024 pref medium` is of router advertisements, and the kernel",
        "by a program: 0",
        "lcwa belongs to lcbr, whose addresses and routes do not move with it: attach lcbr instead, or `ip link set lcwa",
        "2001:db8::44/64 is dadfailed, and would come back as an address in use: remove it (`ip address del",
    ] {
        let line = lines.next().unwrap_or_default();
        if expected.ends_with(": 0") {
            assert_eq!(line, expected, "{text}");
            continue;
        }
        let begin = format!("linecard: addresses were not moved: {expected}");
        assert!(line.starts_with(&begin), "{expected}: {text}");
        assert_eq!([lines.next(), lines.next()], [Some("code 6"), Some("1")], "{text}");
    }
    assert_eq!(lines.next(), None, "{text}");
}

#[test]
fn the_view_is_drawn_on_a_terminal_and_nowhere_else() {
    if !crate::around::is_there("script", "the view on a terminal") {
        return;
    }
    let folder = Folder::new();
    let script = "\
        stty=\"stty cols 60 rows 12\"
        script -qec \"$stty; '$0' attach tap:lcva tap:lcvb --seconds 1 --interval 200ms >out\" /dev/null </dev/null
        echo code $?
        \"$0\" attach tap:lcva tap:lcvb --seconds 0.5 --interval 100ms >out2 2>err";
    let script = format!("export TERM=xterm\n{script}");
    let Some(text) = in_namespace(&folder, "the view on a terminal", &script) else { return };
    assert!(text.contains("code 0"), "{text}");
    let frames = text.matches("\x1b[J").count();
    assert!((2..=6).contains(&frames), "{frames} frames: {text}");
    // Each but the first over the one before.
    assert_eq!(text.matches("A\r\x1b[K").count(), frames - 1, "{text}");
    assert!(text.contains("near ") && text.contains("worker  "), "{text}");
    let drawn = text.split("\x1b[K").skip(1).filter_map(|line| line.lines().next());
    assert!(drawn.map(|line| line.chars().count()).max() <= Some(60), "{text}");
    assert!(!text.contains("\x1b[?25l"), "the cursor was never hidden");
    for plain in ["out", "out2", "err"] {
        assert!(!folder.read(plain).contains(&0x1B), "{plain}");
    }
    let report = String::from_utf8(folder.read("out")).unwrap();
    assert!(report.starts_with("Attached\n"), "{report}");
}
