//! The examples in C, compiled with all warnings and run: with the static and the shared
//! library, under the address sanitizer and under valgrind where those are installed.
#![expect(clippy::panic, reason = "a test stops at the first surprise")]

mod burst;

use linecard_testkit::say;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SANITIZER: &str = "-fsanitize=address,undefined";
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

/// The installed C compiler.
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

/// Where a program is, below the crate's folder.
const ROUND_TRIP: &str = "examples/roundtrip.c";

/// Compiles a program with the header of the repository.
fn compile(cc: &str, source: &str, options: &[&str]) -> Option<Compiled> {
    let include = format!("-I{}", root().join("include").display());
    compile_with(cc, source, &[&[include.as_str()], options, &LIBRARIES].concat())
}

/// Compiles a program; none, and said why, when the options do not let it.
fn compile_with(cc: &str, source: &str, options: &[&str]) -> Option<Compiled> {
    let compiled = Compiled(TempDir::new().expect("a folder"));
    let mut command = Command::new(cc);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1"]);
    command.arg(root().join(source));
    command.args(options).arg("-o").arg(compiled.program());
    let output = command.output().expect("the compiler is there");
    if !output.status.success() {
        say(&format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    }
    Some(compiled)
}

/// The program in the README compiles and runs.
#[test]
fn the_program_of_the_readme_runs() {
    let Some(cc) = compiler() else {
        return linecard_testkit::skip("the README in C", "no C compiler: install gcc, or set CC");
    };
    let readme = std::fs::read_to_string(root().join("README.md")).expect("it is there");
    let program = readme.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let compiled = Compiled(TempDir::new().expect("a folder"));
    let source = compiled.0.path().join("program.c");
    std::fs::write(&source, program.expect("a program in C")).expect("a file");
    let mut command = Command::new(&cc);
    command.args(["-std=c90", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(root().join("include")).arg(&source).arg(build().join("liblinecard.a"));
    run(command.args(LIBRARIES).arg("-o").arg(compiled.program()));
    run(&mut Command::new(compiled.program()));
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
    run_checked(&cc, ROUND_TRIP, expect_round_trip);
}

/// Compiles a program and runs it, also under the address sanitizer and under valgrind.
fn run_checked(cc: &str, source: &str, expect: fn(&mut Command)) {
    let library = build().join("liblinecard.a");
    let library = library.to_str().expect("a path in UTF-8");
    let plain = compile(cc, source, &[library]).expect("the program compiles");
    expect(&mut Command::new(plain.program()));
    match compile(cc, source, &[library, SANITIZER]) {
        Some(checked) => expect(&mut Command::new(checked.program())),
        None => linecard_testkit::skip(
            format!("{source} under the address sanitizer"),
            "it does not compile",
        ),
    }
    if is_there("valgrind") {
        let options = ["--quiet", "--error-exitcode=9", "--leak-check=full"];
        expect(Command::new("valgrind").args(options).arg(plain.program()));
    } else {
        linecard_testkit::skip(format!("{source} under valgrind"), "it is missing");
    }
}

/// The library as `install.sh` installs it, below a folder that is not the one it will be used from.
struct Installed {
    root: TempDir,
    prefix: &'static str,
    /// The output of the script.
    printed: String,
}

impl Installed {
    fn new(prefix: &'static str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut script = Command::new(root().join("install.sh"));
        script.arg(prefix).env("DESTDIR", folder.path()).env("LIBRARIES", build());
        for variable in ["LIBDIR", "INCLUDEDIR", "STRIP"] {
            script.env_remove(variable);
        }
        let printed = String::from_utf8(run(&mut script).stdout).expect("text");
        Self { root: folder, prefix, printed }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(self.prefix.trim_start_matches('/')).join(below)
    }

    /// The words that pkg-config answers.
    fn ask(&self, options: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(options).arg("linecard");
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        // As for a package that is unpacked into a folder, to compile for another system.
        command.env("PKG_CONFIG_SYSROOT_DIR", self.root.path());
        let printed = String::from_utf8(run(&mut command).stdout).expect("text");
        printed.split_whitespace().map(str::to_owned).collect()
    }
}

/// The output of `readelf` for a library.
fn elf(options: &str, library: &Path) -> String {
    let printed = run(Command::new("readelf").arg(options).arg("--wide").arg(library)).stdout;
    String::from_utf8_lossy(&printed).into_owned()
}

/// Promise (Offloads): The C library installs below any prefix, is found by pkg-config, and is linked by a soname with
/// the version of its interface.
#[test]
fn a_program_uses_the_installed_library() {
    let Some(cc) = compiler() else {
        return linecard_testkit::skip(
            "the installed library",
            "no C compiler: install gcc, or set CC",
        );
    };
    if !is_there("pkg-config") {
        return linecard_testkit::skip("the installed library", "pkg-config is missing");
    }
    let installed = Installed::new("/opt/linecard");
    assert_eq!(installed.ask(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let options = installed.ask(&["--cflags", "--libs"]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let shared = compile_with(&cc, ROUND_TRIP, &options).expect("the example compiles");
    let library = installed.path("lib");
    expect_round_trip(Command::new(shared.program()).env("LD_LIBRARY_PATH", &library));
    // The shared library comes first, unless all is static.
    std::fs::remove_file(library.join("liblinecard.so")).expect("it is there");
    let options = installed.ask(&["--static", "--cflags", "--libs"]);
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let archived = compile_with(&cc, ROUND_TRIP, &options).expect("the example compiles");
    expect_round_trip(&mut Command::new(archived.program()));
    // Without any shared library, where there is a libc for that.
    let found = String::from_utf8(run(Command::new(&cc).arg("-print-file-name=libc.a")).stdout);
    if Path::new(found.expect("a path").trim()).is_absolute() {
        let options = [&["-static"], &options[..]].concat();
        let alone = compile_with(&cc, ROUND_TRIP, &options).expect("the example compiles");
        expect_round_trip(&mut Command::new(alone.program()));
    } else {
        linecard_testkit::skip("a program without shared libraries", "there is no libc.a");
    }
}

#[test]
fn the_script_says_how_programs_find_the_library() {
    let (folder, libraries) = (TempDir::new().expect("a folder"), build());
    let install = |prefix: &Path, libdir: &str| {
        let mut script = Command::new(root().join("install.sh"));
        script.arg(prefix).env("LIBRARIES", &libraries).env_remove("DESTDIR");
        script.env("LIBDIR", folder.path().join(libdir)).env_remove("INCLUDEDIR");
        String::from_utf8(run(&mut script).stdout).expect("text")
    };
    let printed = install(folder.path(), "own");
    let last = printed.lines().last().expect("a line");
    let own = folder.path().join("own").display().to_string();
    assert!(last.contains(&format!("LD_LIBRARY_PATH={own}")), "{last}");
    assert!(last.contains(&format!("-Wl,-rpath,{own}")), "{last}");
    let package = Installed::new("/usr/local").printed;
    assert!(package.lines().last().is_some_and(|line| line.contains("ldconfig")), "{package}");
}

#[test]
fn the_script_says_what_is_missing_without_cargo() {
    let folder = TempDir::new().expect("a folder");
    for program in ["bash", "dirname"] {
        let found = run(Command::new("sh").args(["-c", &format!("command -v {program}")])).stdout;
        let found = String::from_utf8(found).expect("text");
        std::os::unix::fs::symlink(found.trim(), folder.path().join(program)).expect("our folder");
    }
    let mut script = Command::new(root().join("install.sh"));
    script.arg(folder.path()).env("PATH", folder.path()).env_remove("LIBRARIES");
    let output = script.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("set LIBRARIES, or install Rust 1.89"), "{said}");
}

#[test]
fn the_installed_library_has_its_name_and_no_debugging_symbols() {
    if !is_there("readelf") {
        return linecard_testkit::skip("the installed library's name", "binutils is missing");
    }
    let installed = Installed::new("/usr");
    let header =
        std::fs::read_to_string(installed.path("include/linecard.h")).expect("it is there");
    let version =
        header.lines().find_map(|line| line.strip_prefix("#define LINECARD_ABI_VERSION "));
    let name = format!("liblinecard.so.{}", version.expect("a version"));
    let library = installed.path("lib").join(&name);
    assert!(elf("--dynamic", &library).contains(&format!("Library soname: [{name}]")));
    let sections = elf("--sections", &library);
    assert!(!sections.contains(".debug_") && !sections.contains(".symtab"), "{sections}");
    let link = std::fs::read_link(installed.path("lib/liblinecard.so")).expect("a link");
    assert_eq!(link, Path::new(&name));
    assert!(!elf("--sections", &installed.path("lib/liblinecard.a")).contains(".debug_"));
}

/// The header alone: C90 without extensions, later versions of C, and C++.
#[test]
fn the_header_compiles_alone() {
    let Some(cc) = compiler() else {
        return linecard_testkit::skip("the header in C", "no C compiler: install gcc, or set CC");
    };
    let header = root().join("include/linecard.h");
    let languages = [
        ["-xc", "-std=c90"],
        ["-xc", "-std=c99"],
        ["-xc", "-std=c17"],
        ["-xc++", "-std=c++98"],
        ["-xc++", "-std=c++17"],
    ];
    for language in languages {
        let mut command = Command::new(&cc);
        command.args(language).args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]);
        command.arg(&header);
        let output = command.output().expect("the compiler is there");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("cc1plus") {
            linecard_testkit::skip("the header in C++", "no C++ compiler");
            continue;
        }
        assert!(output.status.success(), "{command:?}: {said}");
    }
}
