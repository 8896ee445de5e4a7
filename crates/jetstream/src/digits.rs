//! Numbers in subjects, written and read without the formatting machinery: every request has several.

/// Digits of the largest number.
const MOST: usize = 20;

/// Writes a number.
pub(crate) fn push(text: &mut String, number: u64) {
    let (mut digits, mut at, mut rest) = ([b'0'; MOST], MOST, number);
    loop {
        at -= 1;
        digits[at] += u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

/// Reads a number: digits and nothing else.
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_number_comes_back_as_it_was_written(number: u64) {
            let mut text = String::new();
            push(&mut text, number);
            prop_assert_eq!(&text, &number.to_string());
            prop_assert_eq!(parse(text.as_bytes()), Some(number));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-1", "+1", "1a", " 1", "18446744073709551616"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"18446744073709551615"), Some(u64::MAX));
    }
}
