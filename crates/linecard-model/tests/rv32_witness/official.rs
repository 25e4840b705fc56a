//! The official tests of the instruction set, `rv32ui` of `riscv-software-src/riscv-tests`, on the modelled core.
//!
//! Their sources are not part of this repository: `LINECARD_RISCV_TESTS` names a folder with them (its `isa/rv32ui`,
//! `isa/rv64ui` and `isa/macros/scalar`). They are assembled with `riscv_test.h` beside this file, which is the environment
//! of this core, and linked to its two memories.

use super::{Nothing, run};
use linecard_model::elf::Firmware;
use linecard_model::rv32::{Config, Core, CoreKind, Stop};
use std::fs;
use std::path::{Path, PathBuf};

/// Names the folder of the tests.
const FOLDER: &str = "LINECARD_RISCV_TESTS";

/// Tests that the core does not have to pass, and why.
const EXCLUDED: [(&str, &str); 2] = [
    ("fence_i", "not in RV32I (Zifencei); code cannot be written while it runs"),
    ("ma_data", "an access that is not aligned is a fault of this core"),
];
/// Tests that there are at least, so that an incomplete folder is noticed.
const AT_LEAST: usize = 40;
/// No test takes longer on the slowest core: 600 instructions or so.
const CYCLES: u64 = 100_000;
/// In `a7` at the end of a test (`riscv_test.h`).
const ENDED: u32 = 93;
const A0: u8 = 10;
const A7: u8 = 17;

const COMPILER: &str = "riscv64-unknown-elf-gcc";

/// Assembles a test; `None` if there is no compiler.
fn assemble(source: &Path, macros: &Path) -> Option<Firmware> {
    let folder = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rv32_witness");
    let output = folder.path().join("test.elf");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut arguments: Vec<String> =
        ["-march=rv32i", "-mabi=ilp32", "-nostdlib", "-nostartfiles", "-static", "-g"]
            .map(str::to_owned)
            .to_vec();
    arguments.extend(["-Wl,--no-relax,-Ttext=0,-Tdata=0x10000".to_owned()]);
    arguments.extend(["-I".to_owned(), text(&own), "-I".to_owned(), text(macros)]);
    arguments.extend(["-o".to_owned(), text(&output)]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = run(COMPILER, &arguments, source)?;
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success(), "{}: {said}", source.display());
    Some(Firmware::read(&output).unwrap())
}

/// Runs a test on each kind of core; the error says which of its cases failed, or where the core did.
fn execute(test: &Firmware) -> Result<(), String> {
    for kind in [CoreKind::ThreeStage, CoreKind::PicoRv32, CoreKind::Ibex] {
        let config = Config { timing: kind.timing(1), ..Config::default() };
        let mut core = Core::new(test.image(), config).unwrap();
        let end = core.run(&mut Nothing, CYCLES);
        if !matches!(end, Ok(Stop::Halted)) || core.register(A7) != ENDED {
            return Err(format!("{kind:?}: {end:?} at {:?}", test.line(core.pc())));
        }
        match core.register(A0) {
            0 => {}
            case => return Err(format!("{kind:?}: case {case}")),
        }
    }
    Ok(())
}

/// Promise (Hardware model): The core passes all 40 official tests of RV32I (`rv32ui`) that are for a core which refuses
/// accesses that are not aligned and code that changes, if a folder with them is given and a compiler is installed.
#[test]
fn official_tests_pass() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        let why = format!("set {FOLDER} to a folder of riscv-software-src/riscv-tests");
        linecard_testkit::skip("the core beside the official tests", why);
        return;
    };
    let macros = folder.join("isa/macros/scalar");
    let mut sources: Vec<PathBuf> = fs::read_dir(folder.join("isa/rv32ui"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "S"))
        .collect();
    sources.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for source in &sources {
        let name = name(source);
        if EXCLUDED.iter().any(|(excluded, _)| *excluded == name) {
            continue;
        }
        let Some(test) = assemble(source, &macros) else { return };
        match execute(&test) {
            Ok(()) => passed.push(name),
            Err(why) => failed.push(format!("{name}: {why}")),
        }
    }
    println!("{} of {} pass: {}", passed.len(), passed.len() + failed.len(), passed.join(" "));
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(passed.len() >= AT_LEAST, "{} tests in {}", passed.len(), folder.display());
}

/// The environment reports a case that fails, and a test that does not come to its end.
#[test]
fn a_test_that_fails_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    for (body, expected) in [
        ("li TESTNUM, 3\nRVTEST_FAIL", "case 3"),
        ("RVTEST_PASS", ""),
        ("ebreak", "Halted"),
        ("", "Illegal"),
        ("1: j 1b", "Reached"),
    ] {
        let source = folder.path().join("own.S");
        let text = format!(
            "#include \"riscv_test.h\"\nRVTEST_RV32U\nRVTEST_CODE_BEGIN\n{body}\nRVTEST_CODE_END\n"
        );
        fs::write(&source, text).unwrap();
        let Some(test) = assemble(&source, folder.path()) else { return };
        let why = execute(&test).err().unwrap_or_default();
        assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{body}: {why}");
    }
}
