//! The shell script that gives addresses and routes back, in a file for the time when nobody is left who waits.

use super::heir::MoveError;
use super::iproute::command;
use super::plan::{Action, Step};
use crate::folder::PrivateFolder;
use crate::sys::socket::network_cookie;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The part of it that takes the steps.
pub(super) const GIVE_BACK: &str = include_str!("give_back.sh");

/// The file of a script. As long as this or a copy of its descriptor exists, others see that it is held.
#[derive(Debug)]
pub(super) struct Script {
    /// Its path, which contains nothing that a shell reads as something else.
    pub(super) path: String,
    /// The script's arguments behind its file and its file for messages.
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
        let path = place(&folder, near)?;
        let arguments = arguments(near, index, steps).map_err(about(&path))?;
        folder.make().map_err(about(folder.path()))?;
        check(&folder)?;
        let new = path.with_extension("new");
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY;
        let mut held = open(&new, flags).map_err(about(&new))?;
        let path = path.display().to_string();
        let written = held
            .lock()
            .and_then(|()| held.write_all(text(near, &path, &arguments).as_bytes()))
            .and_then(|()| fs::rename(&new, &path));
        written.map_err(about(&new))?;
        Ok(Self { path, arguments, held })
    }

    /// Has an interface get back what an earlier process moved and nobody gave back; whether there was something. A
    /// helper that is at it has the time that it takes.
    ///
    /// # Errors
    ///
    /// The interface does not take all of it.
    pub(super) fn run_earlier(near: &str) -> Result<bool, MoveError> {
        let folder = PrivateFolder::of_user();
        let path = place(&folder, near)?;
        let held = match open(&path, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(about(&path))?,
        };
        check(&folder)?;
        held.lock().map_err(about(&path))?;
        if !is_there(&path, &held) {
            return Ok(false);
        }
        let mut shell = command("/bin/sh");
        let output = shell.arg(&path).stdin(Stdio::null()).output().map_err(about(&path))?;
        match output.status.success() {
            true => Ok(true),
            false => {
                let said = [output.stdout, output.stderr].concat();
                let answer = String::from_utf8_lossy(&said).lines().next().unwrap_or("").to_owned();
                Err(MoveError::Earlier { answer, path })
            }
        }
    }
}

/// Where the script of an interface is. Names are those of a network namespace.
fn place(folder: &PrivateFolder, near: &str) -> Result<PathBuf, MoveError> {
    let namespace = network_cookie().or_else(|_| {
        // Before Linux 5.14. Another namespace may get it once this one is gone.
        fs::metadata("/proc/thread-self/ns/net").map(|found| found.ino())
    });
    let namespace = namespace.map_err(about(folder.path()))?;
    let path = folder.path().join(format!("{near}.{namespace}.sh"));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@+".contains(&byte);
    match path.to_str().is_some_and(|path| path.starts_with('/') && path.bytes().all(is_plain)) {
        true => Ok(path),
        false => Err(about(&path)(io::Error::other("its path is to be absolute, and plain"))),
    }
}

fn about(path: &Path) -> impl Fn(io::Error) -> MoveError {
    let path = path.to_owned();
    move |source| MoveError::Record { path: path.clone(), source }
}

/// Others could have us run something else.
fn check(folder: &PrivateFolder) -> Result<(), MoveError> {
    let is_private = folder.open().and_then(|opened| folder.is_private(&opened));
    match is_private.map_err(about(folder.path()))? {
        true => Ok(()),
        false => Err(about(folder.path())(io::Error::other("others can read it: remove it"))),
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?))
}

fn is_there(path: &Path, opened: &File) -> bool {
    let inode = |found: io::Result<fs::Metadata>| found.ok().map(|found| found.ino());
    inode(fs::symlink_metadata(path)) == inode(opened.metadata())
}

fn arguments(near: &str, index: u32, steps: &[Step]) -> io::Result<Vec<String>> {
    let namespace = fs::read_link("/proc/thread-self/ns/net")?;
    let mut arguments = vec![namespace.display().to_string(), index.to_string()];
    for step in steps {
        let must = if step.object.is_some() { "must" } else { "may" };
        let (kind, content) = match &step.action {
            Action::Words { words, device } if device == near => ("near", words.clone()),
            Action::Words { words, device } => ("far", format!("{words} dev {device}")),
            Action::Restore(message) => (message.object().name(), octal(&message.saved())),
        };
        arguments.extend([must, kind, &content].map(str::to_owned));
    }
    Ok(arguments)
}

/// The script as a file, one step a line.
fn text(near: &str, path: &str, arguments: &[String]) -> String {
    let (place, steps) = arguments.split_at(2);
    let quoted = |words: &[String]| {
        let words = words.iter().map(|word| format!(" '{}'", word.replace('\'', r"'\''")));
        words.collect::<String>()
    };
    let steps: String = steps.chunks(3).map(|step| format!(" \\\n   {}", quoted(step))).collect();
    let message = format!("{path}.part");
    format!(
        "#!/bin/sh\n# Of `linecard attach`, process {}: what {near} is to have again.\nset -- {path} {message}{}{steps}\n\
         {GIVE_BACK}",
        std::process::id(),
        quoted(place),
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

    /// With an `ip` that writes down how it is called, and refuses one kind of call.
    #[test]
    fn the_script_takes_each_step_and_says_what_was_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("eth0.1.sh").display().to_string();
        let namespace = fs::read_link("/proc/self/ns/net").expect("a name").display().to_string();
        let run = |namespace: &str, ip: &str| {
            let words = [
                (["must", "near", "neighbour replace 192.0.2.9 * it's"]),
                ["may", "far", "route del 10.0.0.0/8 dev lc0"],
                ["must", "address", "a\\000b"],
            ];
            let arguments = [namespace, "7"].into_iter().chain(words.into_iter().flatten());
            let arguments: Vec<String> = arguments.map(str::to_owned).collect();
            fs::write(&script, text("eth0", &script, &arguments)).expect("space");
            let all = format!("ip() {{ {ip}; }}; . {script}");
            let shell = Command::new("/bin/sh").args(["-c", &all]).output().expect("a shell");
            let said = [shell.stdout, shell.stderr].concat();
            (shell.status.code(), String::from_utf8_lossy(&said).into_owned())
        };
        let log = folder.path().join("log").display().to_string();
        let links = "test \"$*\" = \"-o link\" && printf '7: eth7@if6: x\\n17: eth0: y\\n'";
        let called =
            format!("{links} || {{ echo \"$*\"; test \"$2\" != restore || od -An -c; }} >>{log}");
        assert_eq!(run(&namespace, &called), (Some(0), String::new()));
        let called = fs::read_to_string(&log).expect("calls");
        assert_eq!(
            called,
            "neighbour replace 192.0.2.9 * it's dev eth7\nroute del 10.0.0.0/8 dev lc0\naddress restore\n   a  \\0   b\n"
        );
        assert!(!Path::new(&script).exists(), "its work is done");

        let refuses = format!(
            "{links} || {{ test $1 != address || {{ echo 'no: 1\nmore' >&2; return 2; }}; }}"
        );
        let (code, said) = run(&namespace, &refuses);
        let advice = format!("(no: 1): have it up, with its MTU, and run `sh {script}`\n");
        assert_eq!(
            (code, said),
            (Some(1), format!("eth7 did not get back all that was moved {advice}"))
        );
        let gone = run(&namespace, "echo '17: eth0: y'");
        assert_eq!(gone, (Some(0), String::new()));
        let (code, said) = run(&namespace, "echo no rights; false");
        assert_eq!((code, said.as_str()), (Some(1), "ip -o link: no rights\n"));
        let (code, said) = run("net:[1]", links);
        assert!(code == Some(1) && said.contains("network namespace net:[1]: run `sh /"), "{said}");
        assert!(
            Path::new(&script).exists()
                && fs::read_dir(folder.path()).expect("it is there").count() == 2
        );
    }
}
