//! A Rust source file taken apart as far as the checks need it: code, comments, paths, functions.
//!
//! No parser: a scanner that knows comments, strings and braces. Code is blanked rather than cut,
//! so every line keeps its number.

/// Paths, each with its line from 0.
type Paths = Vec<(usize, String)>;

/// One source file.
pub struct Source {
    /// Path from the project's root, with slashes.
    pub path: String,
    /// The file as it is.
    pub text: String,
    /// The file with the insides of comments and literals blanked.
    pub code: String,
    /// `code` with everything under `#[cfg(test)]` blanked.
    pub live: String,
}

impl Source {
    /// Takes the file apart.
    pub fn new(path: &str, text: &str) -> Source {
        let code = blank_comments_and_literals(text);
        let live = blank_tests(&code);
        Source { path: path.to_owned(), text: text.to_owned(), code, live }
    }

    /// Whether the file is, or lies below, one of `places`.
    pub fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path.starts_with(place))
    }

    /// Whether the whole file is tests.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/") || self.path.starts_with("tests/")
    }

    /// A complaint about the line `at`, counted from 0.
    pub fn complain(&self, at: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, at + 1)
    }

    /// Whether a comment with the word SAFETY belongs to the statement that holds line `at`.
    pub fn is_argued(&self, at: usize) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        let code: Vec<&str> = self.code.lines().collect();
        let says = |line: &str| line.contains("SAFETY") || line.contains("# Safety");
        for above in (0..=at).rev() {
            if says(lines[above]) {
                return true;
            }
            // The line before begins another statement, or ends the block around this one.
            let before = above.checked_sub(1).map_or("", |before| code[before].trim_end());
            if above == 0 || (lines[above - 1].trim().is_empty()) || before.ends_with([';', '{', '}', ',']) {
                return false;
            }
        }
        false
    }

    /// Every path in the code that is not test code (`a::b::c`, `use` trees spread out), with its line from 0.
    pub fn paths(&self) -> Paths {
        let (mut imports, mut others) = self.all_paths();
        imports.append(&mut others);
        imports
    }

    /// The paths of `use` alone.
    pub fn imports(&self) -> Vec<String> {
        self.all_paths().0.into_iter().map(|(_, path)| path).collect()
    }

    /// Those of `use`, and the others.
    fn all_paths(&self) -> (Paths, Paths) {
        let tokens = tokens(&self.live);
        let (mut imports, mut paths) = (vec![], vec![]);
        let mut at = 0;
        while at < tokens.len() {
            // `use<…>` in a type captures lifetimes.
            let captures = tokens.get(at + 1).is_some_and(|token| token.1 == "<");
            if tokens[at].1 == "use" && !captures {
                at = use_tree(&tokens, at + 1, "", &mut imports);
            } else if is_word(tokens[at].1) {
                let (line, path, next) = path(&tokens, at);
                paths.push((line, path));
                at = next;
            } else {
                at += 1;
            }
        }
        (imports, paths)
    }

    /// Every function with a body: its line from 0, its name, and its length in lines.
    pub fn functions(&self) -> Vec<(usize, &str, usize)> {
        let tokens = tokens(&self.code);
        let mut functions = vec![];
        for at in 0..tokens.len().saturating_sub(1) {
            if tokens[at].1 != "fn" || !is_word(tokens[at + 1].1) {
                continue;
            }
            let Some(open) = (at..tokens.len()).find(|at| ["{", ";"].contains(&tokens[*at].1)) else { continue };
            if tokens[open].1 == "{" {
                let end = tokens.get(closing(&tokens, open)).map_or(tokens[at].0, |token| token.0);
                functions.push((tokens[at].0, tokens[at + 1].1, end - tokens[at].0 + 1));
            }
        }
        functions
    }
}

/// The identifiers in a line.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_word_char(c)).filter(|word| !word.is_empty())
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Identifiers, `::`, and every other character alone, each with its line from 0.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = vec![];
    for (line, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                c if is_word_char(c) => rest.find(|c| !is_word_char(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            tokens.push((line, &rest[..length]));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// The path that begins at token `at`: its line, its text, and the token behind it.
fn path(tokens: &[(usize, &str)], at: usize) -> (usize, String, usize) {
    let (line, mut path, mut next) = (tokens[at].0, tokens[at].1.to_owned(), at + 1);
    while let [(_, "::"), (_, word), ..] = tokens[next.min(tokens.len())..]
        && is_word(word)
    {
        path = path + "::" + word;
        next += 2;
    }
    (line, path, next)
}

/// Spreads out the `use` tree at token `at` below `prefix`; gives the token behind it.
fn use_tree(tokens: &[(usize, &str)], mut at: usize, prefix: &str, paths: &mut Vec<(usize, String)>) -> usize {
    let mut here = prefix.to_owned();
    let mut leaf = None;
    while let Some((line, token)) = tokens.get(at) {
        match *token {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| !["}", ";"].contains(&token.1)) {
                    at = use_tree(tokens, at, &here, paths);
                    at += usize::from(tokens.get(at).is_some_and(|token| token.1 == ","));
                }
                leaf = None;
            }
            "as" => at += 1,
            "," | ";" | "}" => break,
            "::" | "*" => {}
            word => {
                here = if here.is_empty() { word.to_owned() } else { format!("{here}::{word}") };
                leaf = Some(*line);
            }
        }
        at += 1;
    }
    paths.extend(leaf.map(|line| (line, here)));
    at
}

/// The token that closes the brace at token `open`.
fn closing(tokens: &[(usize, &str)], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, (_, token)) in tokens.iter().enumerate().skip(open) {
        depth += usize::from(*token == "{");
        depth -= usize::from(*token == "}");
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

fn blank(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect()
}

fn blank_comments_and_literals(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut word_before = false;
    while let Some(first) = rest.chars().next() {
        let skipped = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, 1),
            'r' | 'b' | 'c' if !word_before => prefixed_literal(rest),
            '\'' => char_literal(rest),
            _ => 0,
        };
        let length = if skipped == 0 { first.len_utf8() } else { skipped };
        out += &if skipped == 0 { rest[..length].to_owned() } else { blank(&rest[..length]) };
        word_before = skipped == 0 && is_word_char(first);
        rest = &rest[length..];
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        (depth, at) = match rest {
            [b'/', b'*', ..] => (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth - 1, at + 2),
            _ => (depth, at + 1),
        };
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// Length of the string whose inside begins at byte `at`.
fn quoted(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    (at + 1).min(text.len())
}

/// Length of the raw, byte or C string at the beginning of `text`; 0 if it is none.
fn prefixed_literal(text: &str) -> usize {
    let prefix = text.len() - text.trim_start_matches(['r', 'b', 'c']).len();
    let hashes = text[prefix..].len() - text[prefix..].trim_start_matches('#').len();
    if prefix > 2 || !text[prefix + hashes..].starts_with('"') {
        return 0;
    }
    let inside = prefix + hashes + 1;
    if !text[..prefix].contains('r') {
        return if hashes == 0 { quoted(text, inside) } else { 0 };
    }
    let end = format!("\"{}", "#".repeat(hashes));
    text[inside..].find(&end).map_or(text.len(), |at| inside + at + end.len())
}

/// Length of the character at the beginning of `text`; 0 if it is a lifetime.
fn char_literal(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let from = at + escaped.len_utf8();
            text[from..].find('\'').map_or(0, |end| from + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

/// Blanks every item under `#[cfg(test)]`.
fn blank_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let item = &rest[at..];
        let mut depth = 0usize;
        let end = item.char_indices().find_map(|(at, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            ((c == '}' || c == ';') && depth == 0).then_some(at + 1)
        });
        let end = end.unwrap_or(item.len());
        out = out + &rest[..at] + &blank(&item[..end]);
        rest = &item[end..];
    }
    out + rest
}
