//! Rust source as the checks see it: comments and the contents of strings removed, test code marked. A scanner of a
//! hundred lines, not a parser: it needs no dependency and is correct for code that rustfmt has formatted.

use std::fs;
use std::path::Path;

/// Every `crates/*/src/**/*.rs`.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<Source>,
}

/// One source file. All texts have the same lines, so an offset in one is an offset in all.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// As written.
    pub(crate) text: String,
    /// Comments are spaces, the inside of strings is `_`.
    pub(crate) code: String,
    /// `code` with every item under `#[cfg(test)]` blanked too.
    pub(crate) shipped: String,
}

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        for krate in sorted_entries(&root.join("crates")) {
            let prefix = format!("crates/{krate}/src");
            read_folder(&root.join(&prefix), &prefix, &mut files);
        }
        assert!(!files.is_empty(), "no source below {}", root.display());
        Self::new(files)
    }

    /// A tree of the given (path, text) pairs.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| Source::new(path, text)).collect())
    }

    /// A file that its parent includes under `#[cfg(test)]` is test code as a whole.
    fn new(mut files: Vec<Source>) -> Self {
        let folders: Vec<String> = files.iter().flat_map(Source::test_module_paths).collect();
        for file in &mut files {
            let stem = file.path.trim_end_matches(".rs");
            if folders.iter().any(|f| stem == f || stem.starts_with(&format!("{f}/"))) {
                file.shipped = blanked(&file.code);
            }
        }
        Self { files }
    }

    /// The files of one crate.
    pub(crate) fn of_crate<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Source> {
        let prefix = format!("crates/{name}/src/");
        self.files.iter().filter(move |file| file.path.starts_with(&prefix))
    }
}

fn sorted_entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<Source>) {
    for name in sorted_entries(folder) {
        let (path, shown) = (folder.join(&name), format!("{prefix}/{name}"));
        if path.is_dir() {
            read_folder(&path, &shown, files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("source files are readable UTF-8");
            files.push(Source::new(&shown, &text));
        }
    }
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = Scanner::new(text).code();
        let shipped = without_test_items(&code);
        Self { path: path.to_owned(), text: text.to_owned(), code, shipped }
    }

    /// 1-based line of an offset.
    pub(crate) fn line_of(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    /// Paths without `.rs` of the modules this file includes as `#[cfg(test)] mod name;`.
    fn test_module_paths(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let folder = match stem.rsplit_once('/') {
            Some((parent, "mod" | "lib" | "main")) => parent,
            _ => stem,
        };
        let mut paths = Vec::new();
        for (_, item) in test_items(&self.code) {
            let words: Vec<&str> =
                item.split(|c: char| !is_word(c)).filter(|w| !w.is_empty()).collect();
            let name =
                words.iter().position(|&word| word == "mod").and_then(|at| words.get(at + 1));
            if let (Some(name), true) = (name, item.ends_with(';')) {
                paths.push(format!("{folder}/{name}"));
            }
        }
        paths
    }
}

/// Lines that hold code.
pub(crate) fn code_lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

/// Offsets where `word` stands alone: no letter, digit or `_` joined to it. An end that is not a
/// letter (as in `todo!(`) needs no boundary.
pub(crate) fn find_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let starts_open = word.starts_with(|c| !is_word(c));
    let ends_open = word.ends_with(|c| !is_word(c));
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let joined_before = code[..at].chars().next_back().is_some_and(is_word);
        let joined_after = code[at + word.len()..].chars().next().is_some_and(is_word);
        (starts_open || !joined_before) && (ends_open || !joined_after)
    })
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// End (exclusive) of the item or body that starts at `from`: its matching brace, or a `;`
/// outside all brackets when `semicolon_ends`.
pub(crate) fn end_of_item(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Offset and text of every item under `#[cfg(test)]`, the attribute included.
fn test_items(code: &str) -> Vec<(usize, &str)> {
    const ATTRIBUTES: [&str; 3] = ["#[cfg(test)]", "#[cfg(all(test", "#[cfg(any(test"];
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(at) = ATTRIBUTES.iter().filter_map(|a| code[from..].find(a)).min() {
        let start = from + at;
        let mut body = start;
        // Step over this and any further attribute.
        while code[body..].trim_start().starts_with("#[") {
            let open = body + code[body..].find('[').expect("just seen");
            body = end_of_bracket(code, open);
        }
        let end = end_of_item(code, body);
        items.push((start, &code[start..end]));
        from = end;
    }
    items
}

fn end_of_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return at + 1,
            b']' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn without_test_items(code: &str) -> String {
    let mut shipped = code.to_owned();
    for (start, item) in test_items(code) {
        shipped.replace_range(start..start + item.len(), &blanked(item));
    }
    shipped
}

fn blanked(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Takes comments and the inside of literals out of Rust source, byte for byte.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    code: Vec<u8>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, code: Vec::with_capacity(text.len()) }
    }

    fn code(mut self) -> String {
        while let Some(&byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b'/' if rest.starts_with(b"//") => self.line_comment(),
                b'/' if rest.starts_with(b"/*") => self.block_comment(),
                b'"' => self.string(),
                b'r' if self.raw_string_opens() => self.raw_string(),
                b'\'' => self.quote(),
                _ => self.keep(1),
            }
        }
        String::from_utf8(self.code).expect("only whole characters are kept or replaced")
    }

    fn keep(&mut self, bytes: usize) {
        self.code.extend_from_slice(&self.text[self.at..self.at + bytes]);
        self.at += bytes;
    }

    /// Replaces the next byte, unless it ends a line.
    fn hide(&mut self, with: u8) {
        let byte = self.text[self.at];
        self.code.push(if byte == b'\n' { byte } else { with });
        self.at += 1;
    }

    fn line_comment(&mut self) {
        while self.at < self.text.len() && self.text[self.at] != b'\n' {
            self.hide(b' ');
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            if rest.starts_with(b"/*") {
                depth += 1;
                self.hide(b' ');
            } else if rest.starts_with(b"*/") {
                depth -= 1;
                self.hide(b' ');
            }
            self.hide(b' ');
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while self.at < self.text.len() && self.text[self.at] != b'"' {
            if self.text[self.at] == b'\\' && self.at + 1 < self.text.len() {
                self.hide(b'_');
            }
            self.hide(b'_');
        }
        if self.at < self.text.len() {
            self.keep(1);
        }
    }

    /// `r"` or `r#…#"`, where the `r` does not end a name (`br`, `cr` do open one).
    fn raw_string_opens(&self) -> bool {
        let before = &self.text[..self.at];
        let joined =
            |bytes: &[u8]| bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        let prefixed =
            matches!(before.last(), Some(b'b' | b'c')) && !joined(&before[..before.len() - 1]);
        let hashes = self.text[self.at + 1..].iter().take_while(|&&byte| byte == b'#').count();
        (prefixed || !joined(before)) && self.text.get(self.at + 1 + hashes) == Some(&b'"')
    }

    fn raw_string(&mut self) {
        let hashes = self.text[self.at + 1..].iter().take_while(|&&byte| byte == b'#').count();
        let close: Vec<u8> = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
        self.keep(hashes + 2);
        while self.at < self.text.len() && !self.text[self.at..].starts_with(&close) {
            self.hide(b'_');
        }
        self.keep(close.len().min(self.text.len() - self.at));
    }

    /// A character literal, or a lifetime (which is kept).
    fn quote(&mut self) {
        let rest = &self.text[self.at + 1..];
        let window = &rest[..rest.len().min(12)];
        let close = match rest.first() {
            Some(b'\\') => window.iter().skip(2).position(|&byte| byte == b'\'').map(|at| at + 2),
            Some(first) => {
                let width = 1
                    + usize::from(*first >= 0xC0)
                    + usize::from(*first >= 0xE0)
                    + usize::from(*first >= 0xF0);
                (rest.get(width) == Some(&b'\'')).then_some(width)
            }
            None => None,
        };
        self.keep(1);
        if let Some(close) = close {
            for _ in 0..close {
                self.hide(b'_');
            }
            self.keep(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::new("a.rs", text);
        assert_eq!(source.code.len(), text.len(), "offsets must stay comparable");
        source.code
    }

    #[test]
    fn comments_go_and_strings_are_hidden() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a     \nc                   g");
        assert_eq!(code(r#"x("a // \" b")"#), r#"x("_________")"#);
        assert_eq!(code("r#\"a\" b\"#; br\"c\"; r#fn"), "r#\"____\"#; br\"_\"; r#fn");
        assert_eq!(code("'\"' 'a' '\\'' b'\\\\' 'é' &'a str"), "'_' '_' '__' b'__' '__' &'a str");
    }

    #[test]
    fn test_modules_are_not_shipped() {
        let source = Source::new(
            "a.rs",
            "fn a() {}\n#[cfg(test)]\n#[x]\nmod tests {\n fn b() {}\n}\nfn c() {}",
        );
        assert_eq!(code_lines(&source.code), 7);
        assert_eq!(code_lines(&source.shipped), 2);
        assert!(source.shipped.contains("fn c"));
    }

    #[test]
    fn files_of_test_modules_are_not_shipped() {
        let tree = Tree::of(&[
            ("crates/x/src/a/mod.rs", "#[cfg(test)]\nmod tests;\nfn a() {}"),
            ("crates/x/src/a/tests.rs", "mod more;"),
            ("crates/x/src/a/tests/more.rs", "fn b() {}"),
            ("crates/x/src/b.rs", "#[cfg(test)] mod slow;"),
            ("crates/x/src/b/slow.rs", "fn b() {}"),
        ]);
        let lines: Vec<usize> = tree.files.iter().map(|file| code_lines(&file.shipped)).collect();
        assert_eq!(lines, [1, 0, 0, 0, 0]);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(find_word("todo!() a::fs fsx xfs fs", "fs").collect::<Vec<_>>(), [11, 22]);
        assert_eq!(find_word("todo!(1)", "todo!(").count(), 1);
        assert_eq!(find_word("my_todo!(1)", "todo!(").count(), 0);
    }
}
