//! Words of the command line that several subcommands read alike, each with what to write instead.

use std::fmt::Display;
use std::net::SocketAddr;
use std::str::FromStr;

/// Reads a number from `least` to `most`.
pub(super) fn number<T>(
    least: T,
    most: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |words| {
        let number = words.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("write a number from {least} to {most}"))
    }
}

/// Reads where somebody listens.
pub(super) fn peer(words: &str) -> Result<SocketAddr, String> {
    let peer = words.parse().ok();
    let peer = peer.filter(|peer: &SocketAddr| peer.port() > 0);
    peer.ok_or_else(|| {
        "write an IP address and a port, as in 192.0.2.9:5300 or [2001:db8::9]:5300; names are \
         not looked up"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_in_the_range_says_the_range() {
        let read = number(1u16, 32);
        assert_eq!((read("1"), read("32")), (Ok(1), Ok(32)));
        for words in ["", "0", "33", "-1", "abc", "1.5", "70000", "1 "] {
            let said = read(words);
            assert_eq!(
                said,
                Err("write a number from 1 to 32".to_owned()),
                "{words}"
            );
        }
    }

    #[test]
    fn who_listens_has_an_address_and_a_port() {
        for (words, is_one) in [
            ("192.0.2.9:5300", true),
            ("[2001:db8::9]:1", true),
            ("192.0.2.9:0", false),
            ("192.0.2.9", false),
            ("2001:db8::9", false),
            ("192.0.2.9:70000", false),
            ("host.invalid:80", false),
            ("foo", false),
        ] {
            match peer(words) {
                Ok(_) => assert!(is_one, "{words}"),
                Err(said) => {
                    assert!(!is_one, "{words}");
                    assert!(said.contains("names are not looked up"), "{said}");
                }
            }
        }
    }
}
