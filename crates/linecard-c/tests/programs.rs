//! The example in C, compiled with all warnings and run: with the static and the shared
//! library, under the address sanitizer and under valgrind where those are there.
#![expect(clippy::panic, reason = "a test stops at the first surprise")]

use linecard_testkit::say;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const LIBRARIES: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts what it builds for this run: the test's program lies in `deps` of it.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.ancestors().nth(2).expect("cargo's folders").to_path_buf()
}

fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Builds both libraries; cargo builds none for a test that does not import the crate.
fn build() -> PathBuf {
    let target = target();
    let folder = target.parent().expect("a folder for all profiles");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "--package", "linecard-c", "--target-dir"])
        .arg(folder);
    if target.ends_with("release") {
        cargo.arg("--release");
    }
    run(&mut cargo);
    target
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The C compiler that is there.
fn compiler() -> Option<String> {
    let named = std::env::var("CC").ok();
    named.into_iter().chain(["cc".to_owned()]).find(|program| is_there(program))
}

/// A program, gone with its folder when dropped.
struct Compiled(TempDir);

impl Compiled {
    fn program(&self) -> PathBuf {
        self.0.path().join("program")
    }
}

/// Compiles the example; none, and said why, when the options do not let it.
fn compile(cc: &str, options: &[&str]) -> Option<Compiled> {
    let compiled = Compiled(TempDir::new().expect("a folder"));
    let mut command = Command::new(cc);
    command.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1"]);
    command.arg("-I").arg(root().join("include"));
    command.arg(root().join("examples/roundtrip.c"));
    command.args(options).args(LIBRARIES).arg("-o").arg(compiled.program());
    let output = command.output().expect("the compiler is there");
    if !output.status.success() {
        say(&format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    Some(compiled)
}

fn expect_round_trip(command: &mut Command) {
    let printed = run(command).stdout;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains("cut again into the same"), "{printed}");
}

/// Promise (Offloads): The C interface restores every byte, without leaks or invalid accesses, with
/// the static and the shared library, under the address sanitizer and valgrind.
#[test]
fn the_example_runs() {
    let Some(cc) = compiler() else {
        return linecard_testkit::skip("the example in C", "no C compiler: install gcc, or set CC");
    };
    let target = build();
    let library = target.join("liblinecard.a");
    let library = library.to_str().expect("a path in UTF-8");
    let plain = compile(&cc, &[library]).expect("the example compiles");
    expect_round_trip(&mut Command::new(plain.program()));

    let search = format!("-L{}", target.display());
    let shared = compile(&cc, &[&search, "-llinecard"]).expect("the example compiles");
    expect_round_trip(Command::new(shared.program()).env("LD_LIBRARY_PATH", &target));

    match compile(&cc, &[library, "-fsanitize=address,undefined"]) {
        Some(checked) => expect_round_trip(&mut Command::new(checked.program())),
        None => {
            linecard_testkit::skip(
                "the example under the address sanitizer",
                "it does not compile",
            );
        }
    }
    if is_there("valgrind") {
        let options = ["--quiet", "--error-exitcode=9", "--leak-check=full"];
        expect_round_trip(Command::new("valgrind").args(options).arg(plain.program()));
    } else {
        linecard_testkit::skip("the example under valgrind", "it is missing");
    }
}

/// The header alone, as C++ too.
#[test]
fn the_header_compiles_alone() {
    let Some(cc) = compiler() else {
        return linecard_testkit::skip("the header in C", "no C compiler: install gcc, or set CC");
    };
    let header = root().join("include/linecard.h");
    for language in [["-xc", "-std=c99"], ["-xc++", "-std=c++11"]] {
        let mut command = Command::new(&cc);
        command.args(language).args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).arg(&header);
        let output = command.output().expect("the compiler is there");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("cc1plus") {
            linecard_testkit::skip("the header in C++", "no C++ compiler");
            continue;
        }
        assert!(output.status.success(), "{command:?}: {said}");
    }
}
