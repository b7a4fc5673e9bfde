//! Layout: documents with places where lines may break, and their rendering.
//!
//! A group is written on one line if it fits and nothing in it must break; otherwise its own places break,
//! and each group in it is asked again (Wadler, "A prettier printer", in its simplest form).

/// A piece of layout.
#[derive(Debug)]
pub(super) struct Doc {
    kind: Kind,
    /// Whether something in it ends a line in any case.
    breaks: bool,
    /// How wide it is on one line.
    width: usize,
}

#[derive(Debug)]
enum Kind {
    Text(String),
    /// A space, or the end of the line.
    Line,
    /// Nothing, or the end of the line.
    Soft,
    /// The end of the line.
    Hard,
    /// The end of the line and an empty line.
    Blank,
    Cat(Vec<Doc>),
    Nest(Vec<Doc>),
    Group(Vec<Doc>),
}

impl Doc {
    pub fn text(text: &str) -> Doc {
        let breaks = text.contains('\n');
        Doc { kind: Kind::Text(text.to_owned()), breaks, width: text.chars().count() }
    }

    pub fn nothing() -> Doc {
        Doc::cat(Vec::new())
    }

    pub fn line() -> Doc {
        Doc { kind: Kind::Line, breaks: false, width: 1 }
    }

    pub fn soft() -> Doc {
        Doc { kind: Kind::Soft, breaks: false, width: 0 }
    }

    pub fn hard() -> Doc {
        Doc { kind: Kind::Hard, breaks: true, width: 0 }
    }

    pub fn blank() -> Doc {
        Doc { kind: Kind::Blank, breaks: true, width: 0 }
    }

    pub fn cat(docs: Vec<Doc>) -> Doc {
        Doc::of(docs, Kind::Cat)
    }

    /// Lines that begin in it begin two further to the right.
    pub fn nest(docs: Vec<Doc>) -> Doc {
        Doc::of(docs, Kind::Nest)
    }

    /// On one line if it fits.
    pub fn group(docs: Vec<Doc>) -> Doc {
        Doc::of(docs, Kind::Group)
    }

    fn of(docs: Vec<Doc>, kind: impl FnOnce(Vec<Doc>) -> Kind) -> Doc {
        let breaks = docs.iter().any(|doc| doc.breaks);
        let width = docs.iter().map(|doc| doc.width).sum();
        Doc { kind: kind(docs), breaks, width }
    }
}

/// The text of a document, ending in one newline.
pub(super) fn render(doc: &Doc, width: usize) -> String {
    let mut out = Out { text: String::new(), column: 0, fresh: true };
    let mut rest = vec![(doc, 0, false)];
    while let Some((doc, indent, flat)) = rest.pop() {
        match &doc.kind {
            Kind::Text(text) => out.text(text, indent),
            Kind::Line if flat => out.text(" ", indent),
            Kind::Soft if flat => {}
            Kind::Line | Kind::Soft | Kind::Hard => out.newline(),
            Kind::Blank => out.blank(),
            Kind::Cat(docs) => rest.extend(docs.iter().rev().map(|doc| (doc, indent, flat))),
            Kind::Nest(docs) => rest.extend(docs.iter().rev().map(|doc| (doc, indent + 2, flat))),
            Kind::Group(docs) => {
                let column = if out.fresh { indent } else { out.column };
                let flat = flat || (!doc.breaks && column + doc.width <= width);
                rest.extend(docs.iter().rev().map(|doc| (doc, indent, flat)));
            }
        }
    }
    out.newline();
    // Comments at the end may have asked for an empty line after them.
    out.text.truncate(out.text.trim_end_matches('\n').len());
    out.text.push('\n');
    out.text
}

struct Out {
    text: String,
    column: usize,
    /// Whether nothing is on the line yet.
    fresh: bool,
}

impl Out {
    fn text(&mut self, text: &str, indent: usize) {
        if text.is_empty() || (self.fresh && text == " ") {
            return;
        }
        if self.fresh {
            self.text.extend(std::iter::repeat_n(' ', indent));
            self.column = indent;
            self.fresh = false;
        }
        self.text.push_str(text);
        match text.rsplit_once('\n') {
            Some((_, last)) => self.column = last.chars().count(),
            None => self.column += text.chars().count(),
        }
    }

    fn newline(&mut self) {
        if !self.fresh {
            self.text.truncate(self.text.trim_end_matches(' ').len());
            self.text.push('\n');
            self.column = 0;
            self.fresh = true;
        }
    }

    fn blank(&mut self) {
        self.newline();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}
