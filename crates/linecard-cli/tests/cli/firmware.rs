//! Firmware of one's own: files that try to take too much memory, paths, mistakes.

use crate::around::is_there;
use crate::folder::Folder;
use linecard_testkit::root;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The most that a file of some hundred kilobytes may add to a run's memory.
const MOST: u64 = 48 << 20;

#[path = "../../../linecard-model/src/elf/tests/bombs.rs"]
mod bombs;
#[path = "../../../linecard-model/src/elf/tests/build.rs"]
#[expect(dead_code, reason = "the tests of linecard-model use the rest")]
mod build;

/// Runs firmware from a file; gives the most memory that the process had.
fn peak(folder: &Folder, image: &str) -> u64 {
    let image = format!("firmware.image={image}");
    let mut command = folder.command(&["model", "run", "s.toml", "--set", &image]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    // The kernel keeps the peak, and the run goes on for some hundred milliseconds after the file
    // has been read.
    loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{image}: {status}");
            return peak;
        }
        std::thread::yield_now();
    }
}

#[test]
fn debug_information_that_repeats_itself_takes_little_memory() {
    let folder = Folder::new();
    let scenario = "model = \"transmit\"\n[load]\nmessages = 2000\nsize = 14600\n";
    folder.write("s.toml", scenario.as_bytes());
    let code = fs::read(root().join("firmware/images/best.bin")).unwrap();
    let plain = build::Build::executable().segment(0, &code, code.len(), build::EXECUTE).bytes();
    folder.write("plain.elf", &plain);
    let mut plain = peak(&folder, "plain.elf");
    for (name, bytes) in bombs::all(&code) {
        folder.write("bomb.elf", &bytes);
        let peaked = peak(&folder, "bomb.elf");
        // On a busy machine the run may end before its peak has been looked at.
        for _ in 0..10 {
            if peaked >= plain + MOST {
                plain = plain.max(peak(&folder, "plain.elf"));
            }
        }
        let more = peaked.saturating_sub(plain);
        assert!(more < MOST, "{name}: a file of {} bytes takes {more} more", bytes.len());
    }
}

/// Firmware of the project with an instruction replaced.
fn changed(at: usize, instruction: u32) -> Vec<u8> {
    let mut code = fs::read(root().join("firmware/images/best.bin")).unwrap();
    code[at..at + 4].copy_from_slice(&instruction.to_le_bytes());
    build::Build::executable().segment(0, &code, code.len(), build::EXECUTE).bytes()
}

const SHORT: &str = "model = \"transmit\"\n[load]\nmessages = 2\nsize = 14600\n";

/// A path in a scenario is seen from the scenario's folder, one of the command line from the current one.
#[test]
fn an_image_is_looked_for_where_it_was_named() {
    let folder = Folder::new();
    fs::create_dir(folder.path("designs")).unwrap();
    folder.write("designs/s.toml", SHORT.as_bytes());
    let own = format!("{SHORT}[firmware]\nimage = \"own.elf\"\n");
    folder.write("designs/own.toml", own.as_bytes());
    let elf = root().join("firmware/images/best.elf");
    fs::copy(&elf, folder.path("mine.elf")).unwrap();
    fs::copy(&elf, folder.path("designs/own.elf")).unwrap();
    folder.succeeds(&["model", "run", "designs/s.toml", "--set", "firmware.image=mine.elf"]);
    folder.succeeds(&["model", "run", "designs/own.toml"]);
    let sweep = ["model", "sweep", "designs/s.toml", "--csv", "-o", "-"];
    folder.succeeds(&[&sweep[..], &["--vary", "firmware.image=mine.elf,best"]].concat());
    let sweep = ["model", "sweep", "designs/own.toml", "--csv", "-o", "-"];
    folder.succeeds(&[&sweep[..], &["--vary", "load.mtu=512,1500"]].concat());
    folder.succeeds(&["model", "solve", "--rate", "40G", "--firmware", "mine.elf"]);
    let set = ["--set", "firmware.image=own.elf"];
    let run = [&["model", "run", "designs/s.toml"][..], &set].concat();
    folder.refuses(2, &run, &["own.elf does not exist", "\"best\""]);
    // A path that cannot be examined is not reported as missing.
    let run = ["model", "run", "designs/s.toml", "--set", "firmware.image=mine.elf/own.elf"];
    folder.refuses(2, &run, &["mine.elf/own.elf: cannot be read", "Not a directory"]);
}

/// The commands of firmware/README.md, as they stand there.
#[test]
fn the_commands_of_the_readme_work() {
    if !is_there("riscv64-unknown-elf-gcc", "the README's commands were not run") {
        return;
    }
    let folder = Folder::new();
    for name in ["firmware", "scenarios"] {
        std::os::unix::fs::symlink(root().join(name), folder.path(name)).unwrap();
    }
    fs::copy(root().join("firmware/lso.c"), folder.path("mine.c")).unwrap();
    let text = fs::read_to_string(root().join("firmware/README.md")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("    "));
    let script: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert!(script.contains("mine.elf"), "{script}");
    let own = PathBuf::from(env!("CARGO_BIN_EXE_linecard"));
    let path = format!("{}:{}", own.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script]).env("PATH", path).current_dir(folder.path(""));
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("mine.c:"), "{output:?}");
}

#[test]
fn a_wrong_packet_is_named_with_its_field_and_both_values() {
    let folder = Folder::new();
    folder.write("s.toml", SHORT.as_bytes());
    // The sequence number of the second packet is not moved on.
    folder.write("own.elf", &changed(0x7c, 0x0000_0013));
    let run = ["model", "run", "s.toml", "--set", "firmware.image=own.elf", "--json"];
    let outcome = folder.run(&run);
    assert_eq!(outcome.code, Some(5), "{outcome:?}");
    let said = outcome.stderr;
    assert!(
        said.contains("the first: packet 1 (message 0): TCP sequence number: expected "),
        "{said}"
    );
    let values = said.split("expected ").nth(1).unwrap().trim();
    let (expected, got) = values.split_once(", got ").unwrap();
    let [expected, got] =
        [expected, got].map(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap());
    assert_eq!(expected.wrapping_sub(got), 1460, "{said}");
}

/// A store to a register that can only be read, and what else a device does not take.
#[test]
fn a_device_says_why_it_refuses() {
    for (instruction, said) in [
        // After `lui s1, 0x30000`: sw zero, 0(s1); sb zero, 32(s1); sw zero, 64(s1).
        (
            0x0004_A023,
            "a store of 32 bits at 0x30000000 is refused: the register there can only be read",
        ),
        (
            0x0204_8023,
            "a store of 8 bits at 0x30000020 is refused: registers are loaded and stored as",
        ),
        (
            0x0404_A023,
            "at 0x30000040 is refused: no memory of the core and no device is mapped there",
        ),
    ] {
        let folder = Folder::new();
        folder.write("s.toml", SHORT.as_bytes());
        folder.write("own.elf", &changed(8, instruction));
        let run = ["model", "run", "s.toml", "--set", "firmware.image=own.elf"];
        folder.refuses(9, &run, &[said]);
    }
}
