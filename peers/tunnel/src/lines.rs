//! Lines of a program, without blank ones and comments.

/// Counts them in Rust or C. A line that has both code and a comment is counted.
pub fn count(source: &str) -> usize {
    let mut is_inside = false;
    let mut is_code = |line: &&str| {
        let line = line.trim();
        if is_inside {
            is_inside = !line.ends_with("*/");
            return false;
        }
        is_inside = line.starts_with("/*") && !line.ends_with("*/");
        !(line.is_empty() || line.starts_with("//") || line.starts_with("/*"))
    };
    source.lines().filter(|line| is_code(line)).count()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn only_code_is_counted() {
        assert_eq!(count("//! About.\n\nfn a() {} // why\n    /// Doc.\n    b();\n"), 2);
        assert_eq!(count("/* one */\n/* two\n * more\n */\nint a; /* b */\n"), 1);
    }
}
