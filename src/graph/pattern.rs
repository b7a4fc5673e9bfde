//! What flows become, as rewriters' patterns say it: `192.0.2.1 1024-65535 - -` gives them another source, and leaves where they go.

use super::arguments::{ArgumentNames, FromArgument as _, Ip4};

/// Both ends that flows get; nothing stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowPattern {
    /// Their source.
    pub source: Option<Ip4>,
    /// Their source port: one of these, which no other flow has.
    pub ports: Option<(u16, u16)>,
    /// Their destination.
    pub destination: Option<Ip4>,
    /// Their destination port.
    pub port: Option<u16>,
}

impl FlowPattern {
    /// Both ends in words.
    pub fn read(words: &[&str], names: &ArgumentNames) -> Result<FlowPattern, String> {
        let [source, ports, destination, port] = *words else {
            return Err(format!("a pattern has four words, SADDR SPORT DADDR DPORT, not '{}'", words.join(" ")));
        };
        let address = |word: &str| match word {
            "-" => Ok(None),
            word => Ip4::read(word, names).map(Some).ok_or_else(|| format!("'{word}' is not {}", Ip4::WANTED)),
        };
        let number =
            |word: &str| word.parse::<u16>().map_err(|_| format!("'{word}' is no port: a number up to 65535, or -"));
        let ports = match ports.trim_end_matches(['#', '?']) {
            "-" => None,
            range => {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last) = (number(first)?, number(last)?);
                if first > last {
                    return Err(format!("'{range}' ends before it begins"));
                }
                Some((first, last))
            }
        };
        let port = if port == "-" { None } else { Some(number(port)?) };
        Ok(FlowPattern { source: address(source)?, ports, destination: address(destination)?, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_say() {
        let names = ArgumentNames { ip: [("out".to_owned(), ([192, 0, 2, 1], 24))].into(), ..ArgumentNames::default() };
        let read = |text: &str| FlowPattern::read(&text.split(' ').collect::<Vec<_>>(), &names);
        let out = Some(Ip4([192, 0, 2, 1]));
        let ports = Some((1024, 65_535));
        assert_eq!(read("out 1024-65535# - -"), Ok(FlowPattern { source: out, ports, ..FlowPattern::default() }));
        let all = FlowPattern { source: None, ports: Some((7, 7)), destination: out, port: Some(80) };
        assert_eq!(read("- 7 192.0.2.1 80"), Ok(all));
        for (wrong, why) in [
            ("out - -", "four words"),
            ("in - - -", "'in' is not an IPv4 address"),
            ("out 9-8 - -", "'9-8' ends before it begins"),
            ("out 100000 - -", "'100000' is no port"),
            ("- - - http", "'http' is no port"),
        ] {
            let said = read(wrong).unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
