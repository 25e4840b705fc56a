//! The shell script that gives addresses and routes back, recorded in a file for the case that the waiting process is
//! killed.

use super::heir::MoveError;
use super::iproute::{command, ip};
use super::plan::{Action, Step};
use crate::folder::PrivateFolder;
use crate::sys::socket::network_cookie;
use linecard_tun::sys::device;
use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

/// Functions of the script, and how it takes its arguments.
pub(super) const FUNCTIONS: &str = include_str!("give_back.sh");
/// Takes the steps that its arguments are.
pub(super) const START: &str = "give_back \"$@\"\n";

/// A recorded script. As long as this or a copy of its descriptor exists, others see that it is held.
#[derive(Debug)]
pub(super) struct Script {
    /// Its path, which contains nothing that a shell reads as something else.
    pub(super) path: String,
    /// Its arguments: the interface's number, and three for each step.
    pub(super) arguments: Vec<String>,
    pub(super) held: File,
}

impl Script {
    /// Writes the script of these steps, complete or not at all. The interface has this number.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or others can write it, too.
    pub(super) fn write(near: &str, index: u32, steps: &[Step]) -> Result<Self, MoveError> {
        let folder = PrivateFolder::of_user();
        folder.make().map_err(about(folder.path()))?;
        check(&folder)?;
        let path = folder.path().join(format!("{near}.{index}{}", extension(&folder)?));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte);
        if !path.to_str().is_some_and(|path| path.starts_with('/') && path.bytes().all(is_plain)) {
            return Err(about(&path)(io::Error::other(
                "its path is to be absolute, and to have no blanks",
            )));
        }
        let new = path.with_extension("new");
        let path = path.display().to_string();
        let arguments = arguments(near, index, steps);
        let text = text(&path, &Identity::of(near)?, &arguments);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
        let mut held = open(&new, flags).map_err(about(&new))?;
        let written = held
            .lock()
            .and_then(|()| held.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            let _removed = fs::remove_file(&new);
            about(&new)(error)
        })?;
        Ok(Self { path, arguments, held })
    }

    /// Has an interface get back the settings that an earlier process moved and that were not given back; returns a
    /// message about that. A helper that is at it has the time that it takes.
    ///
    /// # Errors
    ///
    /// The interface does not take all of it.
    pub(super) fn run_earlier(near: &str, index: u32) -> Result<Vec<String>, MoveError> {
        let folder = PrivateFolder::of_user();
        let entries = match fs::read_dir(folder.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(about(folder.path()))?,
        };
        check(&folder)?;
        let extension = extension(&folder)?;
        let is_of = |file: &str| {
            let record = file.strip_suffix(&extension).and_then(|record| record.rsplit_once('.'));
            let Some((name, number)) = record else { return false };
            // It may have had another name; one of its name that is gone is at least said.
            number.parse::<u32>().is_ok_and(|number| {
                number == index || (name == near && device::name(number as i32).is_err())
            })
        };
        let records =
            entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_of));
        let mut said = Vec::new();
        for record in records {
            said.extend(run(&record.path())?);
        }
        Ok(said)
    }
}

/// Runs a record, unless it was run meanwhile.
fn run(path: &Path) -> Result<Option<String>, MoveError> {
    let held = match open(path, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(about(path))?,
    };
    held.lock().map_err(about(path))?;
    if !PrivateFolder::at(path).is_there(&held) {
        return Ok(None);
    }
    // The script wants it for itself.
    drop(held);
    let mut shell = command("/bin/sh");
    let output = shell.arg(path).stdin(Stdio::null()).output().map_err(about(path))?;
    let said = [output.stdout, output.stderr].concat();
    match (output.status.success(), String::from_utf8_lossy(&said).lines().next()) {
        (true, Some(line)) => {
            Ok(Some(format!("{line} (by an earlier start that could not give it back)")))
        }
        (_, answer) => {
            let answer = answer.unwrap_or("the record is damaged").to_owned();
            Err(MoveError::Earlier { answer, path: path.to_owned() })
        }
    }
}

/// How records of this network namespace end.
fn extension(folder: &PrivateFolder) -> Result<String, MoveError> {
    let namespace = network_cookie().or_else(|_| {
        // Before Linux 5.14. Another namespace may get it once this one is gone.
        fs::metadata("/proc/thread-self/ns/net").map(|found| found.ino())
    });
    Ok(format!(".{}.sh", namespace.map_err(about(folder.path()))?))
}

fn about(path: &Path) -> impl Fn(io::Error) -> MoveError {
    let path = path.to_owned();
    move |source| MoveError::Record { path: path.clone(), source }
}

/// Others could have us run something else.
fn check(folder: &PrivateFolder) -> Result<(), MoveError> {
    let path = folder.path();
    let opened = folder.open().map_err(about(path))?;
    if folder.is_private(&opened).map_err(about(path))? {
        return Ok(());
    }
    let found = opened.metadata().map_err(about(path))?;
    let (user, shown) = (geteuid().as_raw(), path.display());
    Err(about(path)(io::Error::other(format!(
        "it is of user {} with mode {:o}, so others may have changed it: look at what is in it, then `chown {user} \
         {shown}` and `chmod 700 {shown}`",
        found.uid(),
        found.mode() & 0o7777
    ))))
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

/// The steps as arguments: the object, if one must succeed, its kind, and words or a message.
fn arguments(near: &str, index: u32, steps: &[Step]) -> Vec<String> {
    let mut arguments = vec![index.to_string()];
    for Step { action, object } in steps {
        let (kind, content) = match action {
            Action::Words { words, device } if device == near => ("near", words.clone()),
            Action::Words { words, device } => ("far", format!("{words} dev {device}")),
            Action::Restore(message) => (message.object().name(), octal(&message.saved())),
        };
        arguments.extend([object.clone().unwrap_or_default(), kind.to_owned(), content]);
    }
    arguments
}

/// Tells whether an interface is the same one: numbers are given again after a boot, and where a namespace has the place of
/// another.
#[derive(Debug)]
struct Identity {
    boot: String,
    namespace: String,
    /// Its name and its hardware address, as `link/ether 02:00:00:00:00:01`.
    name: String,
    link: String,
}

impl Identity {
    fn of(near: &str) -> Result<Self, MoveError> {
        let boot = Path::new("/proc/sys/kernel/random/boot_id");
        let namespace = Path::new("/proc/thread-self/ns/net");
        let line = ip(&["-o", "link", "show", "dev", near])?;
        let mut words = line.split_whitespace().skip_while(|word| !word.starts_with("link/"));
        let link = [words.next(), words.next()].map(Option::unwrap_or_default).join(" ");
        Ok(Self {
            boot: fs::read_to_string(boot).map_err(about(boot))?.trim().to_owned(),
            namespace: fs::read_link(namespace).map_err(about(namespace))?.display().to_string(),
            name: near.to_owned(),
            link,
        })
    }
}

/// The record: the script with its arguments, one step a line.
fn text(path: &str, identity: &Identity, arguments: &[String]) -> String {
    let (index, steps) = arguments.split_at(1);
    let quoted = |words: &[String]| {
        let words = words.iter().map(|word| format!(" '{}'", word.replace('\'', r"'\''")));
        words.collect::<String>()
    };
    let index = quoted(index);
    let steps: String = steps.chunks(3).map(|step| format!(" \\\n   {}", quoted(step))).collect();
    let Identity { boot, namespace, name, link } = identity;
    let process = std::process::id();
    format!(
        r#"#!/bin/sh
# What {name} is to have again, of `linecard attach` (process {process}).
{{
set -- {path} {path}.part{index}{steps}
{FUNCTIONS}
[ "$(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/net)" = '{boot} {namespace}' ] ||
    refuse "$file is of another boot or network namespace, {namespace}: run it there (\`ip netns exec NAME sh $file\`), or remove it"
exec 9<"$file"
! command -v flock >/dev/null || flock -n 9 ||
    refuse "$file is of \`linecard attach\`, process {process}, which still has the addresses: end it first"
look
case $link in
'' | *'{link}'*) ;;
*) refuse "interface $index is $near, and has another address than {name} ({link}): remove $file if it is not the same" ;;
esac
{START}}}
"#
    )
}

/// Bytes as `printf` of a shell writes them.
fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// By the shell itself: all bytes, and the end of its input.
    #[test]
    fn the_shell_writes_messages_as_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        let mut shell = command("/bin/sh");
        shell.args(["-c", "printf \"$1\"", "sh", &octal(&all)]);
        assert_eq!(shell.output().expect("a shell").stdout, all);
    }

    /// A record, and an `ip` that is a function.
    struct Recorded {
        folder: tempfile::TempDir,
        identity: Identity,
    }

    impl Recorded {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let identity = Identity {
                link: "link/ether 02:01".to_owned(),
                ..Identity::of("lo").expect("it is there")
            };
            Self { folder, identity }
        }

        fn path(&self) -> String {
            self.folder.path().join("eth0.7.1.sh").display().to_string()
        }

        fn run(&self, ip: &str) -> (Option<i32>, String) {
            let steps = [
                ["neighbour 192.0.2.9", "near", "neighbour replace 192.0.2.9 * it's"],
                ["", "far", "route del 10.0.0.0/8 dev lc0"],
                ["address 192.0.2.7/24", "address", "a\\000b"],
            ];
            let arguments = ["7"].into_iter().chain(steps.into_iter().flatten());
            let arguments: Vec<String> = arguments.map(str::to_owned).collect();
            let path = self.path();
            fs::write(&path, text(&path, &self.identity, &arguments)).expect("space");
            let shell = format!("ip() {{ {ip}; }}; . {path}");
            let shell = Command::new("/bin/sh").args(["-c", &shell]).output().expect("a shell");
            let said = [shell.stdout, shell.stderr].concat();
            (shell.status.code(), String::from_utf8_lossy(&said).into_owned())
        }
    }

    const LINKS: &str =
        "test \"$*\" = \"-o link\" && printf '7: eth7@if6: x link/ether 02:01 y\\n17: eth0: y\\n'";

    #[test]
    fn the_script_takes_each_step() {
        let recorded = Recorded::new();
        let log = recorded.folder.path().join("log").display().to_string();
        let called =
            format!("{LINKS} || {{ echo \"$*\"; test \"$2\" != restore || od -An -c; }} >>{log}");
        assert_eq!(recorded.run(&called), (Some(0), "eth7 got back what was moved\n".to_owned()));
        assert_eq!(
            fs::read_to_string(&log).expect("calls"),
            "neighbour replace 192.0.2.9 * it's dev eth7\nroute del 10.0.0.0/8 dev lc0\naddress restore\n   a  \\0   b\n"
        );
        assert!(!Path::new(&recorded.path()).exists(), "its work is done");
        let (code, said) = recorded.run("echo '17: eth0: y'");
        assert_eq!(
            (code, said.as_str()),
            (Some(0), "interface 7 is gone, and with it what it had\n")
        );
    }

    #[test]
    fn the_script_says_what_was_refused_and_stays() {
        let mut recorded = Recorded::new();
        let refuses = format!(
            "{LINKS} || {{ test $1 != address || {{ echo 'no: 1\nmore' >&2; return 2; }}; }}"
        );
        let path = recorded.path();
        let advice = format!(
            "(address 192.0.2.7/24: no: 1): have it up, with its MTU, and run `sh {path}`\n"
        );
        assert_eq!(
            recorded.run(&refuses),
            (Some(1), format!("eth7 did not get back all that was moved {advice}"))
        );
        let refused = recorded.run("echo no rights; false");
        assert_eq!(refused, (Some(1), "ip -o link: no rights\n".to_owned()));
        let held = File::open(&path).expect("it is there");
        held.lock().expect("nobody has it");
        // The same file, written again.
        let (code, said) = recorded.run(LINKS);
        assert!(
            code == Some(1) && said.contains("still has the addresses: end it first"),
            "{said}"
        );
        drop(held);
        recorded.identity.link = "link/ether 02:02".to_owned();
        let (code, said) = recorded.run(LINKS);
        assert!(
            code == Some(1)
                && said.starts_with("interface 7 is eth7, and has another address than lo (link"),
            "{said}"
        );
        recorded.identity.boot.push('x');
        let (code, said) = recorded.run(LINKS);
        assert!(
            code == Some(1) && said.contains(" is of another boot or network namespace, net:["),
            "{said}"
        );
        let left = fs::read_dir(recorded.folder.path()).expect("it is there").count();
        assert_eq!(left, 1, "the record alone");
        fs::write(&path, "").expect("space");
        let damaged = run(Path::new(&path)).expect_err("it is empty").to_string();
        assert!(damaged.starts_with("the record is damaged"), "{damaged}");
    }
}
