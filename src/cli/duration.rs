//! Durations as people write them: `500ms`, `15s`, `1h30m`, `14d`.

use std::time::Duration;

use keywork_model::limits;

const SHORTEST: Duration = Duration::from_millis(1);

/// Reads a duration: numbers with the units ms, s, m, h and d, one after the other; `0` needs no unit.
///
/// # Errors
/// The text is something else, negative, or longer than can be counted.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text
        .strip_prefix('-')
        .is_some_and(|rest| parse(rest).is_ok())
    {
        return Err("must not be negative".to_owned());
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let (part, after) = part(rest).ok_or_else(|| problem(text))?;
        sum = sum.checked_add(part).ok_or_else(|| problem(text))?;
        rest = after;
    }
    if text.is_empty() {
        Err(problem(text))
    } else {
        Ok(sum)
    }
}

/// Reads how long something of this process may take: a duration that can be added to any time.
///
/// # Errors
/// The text is no duration, or one of more than 366 days.
pub(super) fn grace(text: &str) -> Result<Duration, String> {
    within(Duration::ZERO, "from 0s to 366d", text)
}

/// Reads how long something is waited for: there is no answer in no time.
///
/// # Errors
/// The text is no duration, or none of 1 ms to 366 days.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    within(SHORTEST, "from 1ms to 366d", text)
}

fn within(least: Duration, range: &str, text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if (least..=limits::MAX_DELAY).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("must be {range}"))
    }
}

fn problem(text: &str) -> String {
    format!("{text:?} is no duration: write such as 500ms, 15s, 1h30m or 14d")
}

/// The first number with its unit, and what comes after.
fn part(text: &str) -> Option<(Duration, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(digits);
    let unit = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some((Duration::try_from_secs_f64(number * seconds).ok()?, rest))
}

/// Writes a duration as people read it: at most two units, the largest first.
pub(super) fn show(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let two = |high: u64, high_unit: &str, low: u64, low_unit: &str| match low {
        0 => format!("{high}{high_unit}"),
        low => format!("{high}{high_unit}{low}{low_unit}"),
    };
    match seconds {
        0 => format!("{millis}ms"),
        1..60 if millis > 0 => format!("{:.1}s", duration.as_secs_f64()),
        1..3_600 => match seconds / 60 {
            0 => format!("{seconds}s"),
            minutes => two(minutes, "m", seconds % 60, "s"),
        },
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = [
            ("0", 0),
            ("250ms", 250),
            ("15s", 15_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
        ];
        for (text, millis) in read {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "s", "5 s", "5x", "-1s", "1s2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_negative_is_called_so() {
        for text in ["-1s", "-1h30m", "-0"] {
            assert_eq!(
                parse(text),
                Err("must not be negative".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn limits_are_told() {
        assert!(patience("0s").is_err_and(|problem| problem.contains("1ms to 366d")));
        assert!(grace("367d").is_err_and(|problem| problem.contains("366d")));
        assert!(patience("366d").is_ok() && grace("0").is_ok());
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for seconds in [0, 1, 59, 60, 61, 3_600, 86_400, 90_000] {
            let duration = Duration::from_secs(seconds);
            assert_eq!(parse(&show(duration)), Ok(duration));
        }
    }
}
