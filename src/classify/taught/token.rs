//! Words and signs of the texts that the classifier reads, and what is said of a wrong one. Example: `ip (src = 10.0.0.0/8)` is
//! `ip`, `(`, `src`, `=`, `10.0.0.0/8`, `)`.
//!
//! Addresses, ranges and names of hosts are one word, which whoever expects a value takes apart. `#` begins a comment.

/// Bytes of the longest text.
pub const TEXT_MAX: usize = 1 << 20;

/// Longest word that is repeated in a message.
const SHOWN_MAX: usize = 60;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The byte of the text at which it begins.
    pub at: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl Mistake {
    /// A mistake at a place.
    pub fn at(at: usize, what: impl Into<String>) -> Mistake {
        Mistake { at, what: what.into() }
    }

    /// The mistake with its line: `name:2:7: what`, the line, and a mark below the place.
    pub fn show(&self, name: &str, text: &str) -> String {
        let mut at = self.at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let begin = text[..at].rfind('\n').map_or(0, |at| at + 1);
        let (number, column) = (text[..begin].matches('\n').count() + 1, text[begin..at].chars().count());
        let line = text[begin..].lines().next().unwrap_or("");
        let from = column.saturating_sub(SHOWN_MAX);
        let shown: String = line.chars().skip(from).take(2 * SHOWN_MAX).collect();
        let mark = " ".repeat(column - from);
        format!("{name}:{number}:{}: {}\n  {shown}\n  {mark}^", column + 1, self.what)
    }
}

/// A word or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Its bytes.
    pub text: &'a str,
    /// Where it begins.
    pub at: usize,
    /// Whether it is a word.
    pub is_word: bool,
}

/// How words are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// `fd00::1` and `10-20` are one word everywhere.
    Whole,
    /// The same, but not inside of brackets: `ip[6:2]` has five tokens behind `ip`.
    SplitInBrackets,
}

/// The tokens of a text.
pub fn tokens(text: &str, words: Words) -> Result<Vec<Token<'_>>, Mistake> {
    if text.len() > TEXT_MAX {
        return Err(Mistake::at(0, format!("a text has at most {TEXT_MAX} bytes, this one has {}", text.len())));
    }
    let (mut found, mut at, mut depth) = (Vec::new(), 0, 0usize);
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
            continue;
        }
        let split = words == Words::SplitInBrackets && depth > 0;
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c) || !split && ":-/".contains(c);
        let length = text[at..].find(|c| !is_part(c)).unwrap_or(text.len() - at);
        let (length, is_word) = if length > 0 { (length, true) } else { (sign(&text[at..]), false) };
        if length == 0 {
            return Err(Mistake::at(at, format!("'{}' is no part of this language", first.escape_default())));
        }
        let token = &text[at..at + length];
        depth = match token {
            "[" => depth + 1,
            "]" => depth.saturating_sub(1),
            _ => depth,
        };
        found.push(Token { text: token, at, is_word });
        at += length;
    }
    Ok(found)
}

/// How long the sign at the beginning is; none: 0.
fn sign(text: &str) -> usize {
    let known =
        ["<<", ">>", "<=", ">=", "!=", "==", "&&", "||", "(", ")", "[", "]", "|", "*", "=", "<", ">", "&", "!", "+"];
    let more = ["-", "/", ":", "%", "^", ","];
    known.iter().chain(&more).find(|sign| text.starts_with(**sign)).map_or(0, |sign| sign.len())
}

/// Tokens that are read one by one.
#[derive(Debug)]
pub struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    /// The tokens of a text.
    pub fn new(text: &'a str, words: Words) -> Result<Reader<'a>, Mistake> {
        Ok(Reader { tokens: tokens(text, words)?, next: 0, end: text.len() })
    }

    /// The next one, which stays the next.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    /// Whether the next one is this.
    pub fn is(&self, text: &str) -> bool {
        self.peek().is_some_and(|token| token.text == text)
    }

    /// Takes it if it is this.
    pub fn take(&mut self, text: &str) -> bool {
        let is = self.is(text);
        self.next += usize::from(is);
        is
    }

    /// Takes the next one.
    pub fn advance(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.next += usize::from(token.is_some());
        token
    }

    /// Where the next one begins.
    pub fn at(&self) -> usize {
        self.peek().map_or(self.end, |token| token.at)
    }

    /// Takes this, or says what stands in its place.
    pub fn demand(&mut self, text: &str) -> Result<(), Mistake> {
        if self.take(text) { Ok(()) } else { Err(self.wrong(&format!("'{text}'"))) }
    }

    /// Takes a word, or says what stands in its place.
    pub fn word(&mut self, what: &str) -> Result<Token<'a>, Mistake> {
        match self.peek().filter(|token| token.is_word) {
            Some(token) => {
                self.next += 1;
                Ok(token)
            }
            None => Err(self.wrong(what)),
        }
    }

    /// Takes a number, or says what stands in its place.
    pub fn number(&mut self, what: &str, most: u64) -> Result<u64, Mistake> {
        let token = self.word(what)?;
        let number = number(token.text).ok_or_else(|| Mistake::at(token.at, format!("{what} must be a number")))?;
        let fits = number <= most;
        if fits { Ok(number) } else { Err(Mistake::at(token.at, format!("{what} is at most {most}, not {number}"))) }
    }

    /// Something else was expected here.
    pub fn wrong(&self, wanted: &str) -> Mistake {
        let found = self.peek().map_or("the end of the text".to_owned(), |token| format!("'{}'", shown(token.text)));
        Mistake::at(self.at(), format!("{wanted} is expected here, not {found}"))
    }
}

/// A number, decimal or hexadecimal.
pub fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    // A sign is no digit.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// A word as messages repeat it.
pub fn shown(text: &str) -> String {
    if text.chars().count() <= SHOWN_MAX {
        return text.to_owned();
    }
    text.chars().take(SHOWN_MAX).chain("…".chars()).collect()
}

/// Names that are spelled much like one, the nearest first, in a clause; empty if none is.
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> String {
    let wanted = shown(wanted);
    let limit = (wanted.len() / 2).clamp(1, 3);
    let mut near: Vec<_> =
        known.map(|name| (edits(&wanted, name), name)).filter(|(steps, _)| *steps <= limit).collect();
    near.sort();
    near.dedup();
    let names: Vec<_> = near.iter().take(3).map(|(_, name)| format!("'{name}'")).collect();
    if names.is_empty() { String::new() } else { format!("; do you mean {}?", names.join(" or ")) }
}

/// Letters to be changed, put in or left out to come from one to the other (Levenshtein); two that are exchanged count once.
fn edits(one: &str, other: &str) -> usize {
    let letters: Vec<char> = one.chars().collect();
    let exchanged = |at: usize| {
        let mut letters = letters.clone();
        letters.swap(at, at + 1);
        letters.into_iter().eq(other.chars())
    };
    if (1..letters.len()).any(|at| exchanged(at - 1)) && one != other {
        return 1;
    }
    let other: Vec<char> = other.chars().take(SHOWN_MAX).collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, letter) in one.chars().enumerate() {
        let mut before = done;
        row[0] = done + 1;
        for at in 0..other.len() {
            let changed = before + usize::from(other[at] != letter);
            before = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_signs_are_told_apart() {
        let texts = |text, words| tokens(text, words).unwrap().iter().map(|token| token.text).collect::<Vec<_>>();
        assert_eq!(
            texts("ip(src=fd00::/8)| *# x\n<=1..2", Words::Whole),
            ["ip", "(", "src", "=", "fd00::/8", ")", "|", "*", "<=", "1..2"]
        );
        assert_eq!(texts("ip[6:2]&&10-20", Words::SplitInBrackets), ["ip", "[", "6", ":", "2", "]", "&&", "10-20"]);
        assert_eq!(tokens("a ~", Words::Whole).unwrap_err().at, 2);
        assert_eq!(
            [number("0x1f"), number("12"), number("+1"), number(""), number("1g")],
            [Some(31), Some(12), None, None, None]
        );
    }

    #[test]
    fn a_mistake_is_shown_with_its_line() {
        let shown = Mistake::at(6, "no such thing").show("x", "one\ntwé three");
        assert_eq!(shown, "x:2:3: no such thing\n  twé three\n    ^");
        assert_eq!(Mistake::at(99, "end").show("x", "a"), "x:1:2: end\n  a\n   ^");
    }

    #[test]
    fn names_that_are_near_are_named() {
        let known = ["src", "dst", "proto"];
        assert_eq!(nearest("scr", known.into_iter()), "; do you mean 'src'?");
        assert_eq!(nearest("protocol", known.into_iter()), "; do you mean 'proto'?");
        assert_eq!(nearest("checksum", known.into_iter()), "");
    }
}
