//! The seeds of the fuzzer reach the parser of ELF files: an input that is cut off is refused at its section table.

use linecard_model::elf::Firmware;
use std::fs;
use std::path::Path;

/// Inputs of the fuzz target `firmware` that are ELF files begin with this bit.
const IS_ELF: u8 = 0x80;

#[test]
fn elf_seeds_are_loaded_with_their_names() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/firmware");
    let entries = fs::read_dir(&folder).expect("the folder of seeds");
    let seeds = entries.map(|entry| fs::read(entry.expect("an entry").path()).expect("a seed"));
    let elf: Vec<Vec<u8>> = seeds.filter(|seed| seed[0] & IS_ELF != 0).collect();
    assert!(elf.len() >= 3, "{} seeds are ELF files", elf.len());
    for seed in elf {
        let firmware = Firmware::parse("seed", &seed[1..]).expect("a whole file");
        assert!(firmware.place(0).is_some(), "it has symbols");
        // The fuzzer's variant of it, from when inputs were limited to 2,048 bytes.
        assert!(seed.len() > 2_048 && Firmware::parse("seed", &seed[1..2_048]).is_err());
    }
}
