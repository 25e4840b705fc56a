//! The firmware images that are committed are what their sources build.

use linecard_model::elf::Firmware;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: [&str; 3] =
    ["riscv64-unknown-elf-as", "riscv64-unknown-elf-ld", "riscv64-unknown-elf-gcc"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder().join("images")).expect("the folder of images");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        name.strip_suffix(".bin").map(str::to_owned)
    };
    let names: Vec<String> = entries.filter_map(name).collect();
    assert!(names.len() >= 4, "{names:?}");
    names
}

/// Both forms of an image are one: instructions from address 0 on.
#[test]
fn elf_and_bin_hold_the_same_code() {
    for name in names() {
        let images = folder().join("images");
        let firmware = Firmware::read(&images.join(format!("{name}.elf"))).expect("an image");
        let code = std::fs::read(images.join(format!("{name}.bin"))).expect("an image");
        let image = firmware.image();
        assert_eq!(image.entry, 0, "{name}");
        let of_code = image.segments.iter().find(|segment| segment.address == 0);
        assert_eq!(of_code.map(|segment| segment.bytes.as_slice()), Some(&*code), "{name}");
        assert!(firmware.line(0).is_some(), "{name} has lines");
    }
}

/// Promise (Hardware model): The committed firmware images are what their sources build, where
/// binutils and gcc for RISC-V are installed.
#[test]
fn sources_build_the_images_that_are_committed() {
    let missing = TOOLS.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(missing) = missing {
        linecard_testkit::skip(
            "images built from their sources",
            format_args!("{missing} is missing; run .ci/setup"),
        );
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let built = Command::new(folder().join("build")).arg(out.path()).output().expect("the script");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in names() {
        let read =
            |folder: &Path| std::fs::read(folder.join(format!("{name}.bin"))).expect("a file");
        let same = read(out.path()) == read(&folder().join("images"));
        assert!(
            same,
            "firmware/images/{name}.bin is not what its source builds: run firmware/build"
        );
    }
}
