//! Amounts as Kubernetes writes them: `4`, `3920m`, `16Gi`, `129e6`.

/// An amount in thousandths, rounded up as Kubernetes does it; `None` if it is not one.
pub(crate) fn thousandths(text: &str) -> Option<u128> {
    let number = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(number)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let (times, over) = scale(unit)?;
    let digits = format!("0{whole}{part}").parse::<u128>().ok()?;
    let over = over.checked_mul(10_u128.checked_pow(u32::try_from(part.len()).ok()?)?)?;
    Some(digits.checked_mul(times)?.checked_mul(1_000)?.div_ceil(over))
}

/// What a unit multiplies with, and what it divides by.
fn scale(unit: &str) -> Option<(u128, u128)> {
    if let Some(power) = unit.strip_prefix(['e', 'E']).filter(|power| !power.is_empty()) {
        let power: i32 = power.parse().ok()?;
        let scale = 10_u128.checked_pow(power.unsigned_abs())?;
        return Some(if power < 0 { (1, scale) } else { (scale, 1) });
    }
    let binary = |power: u32| (1_u128 << (10 * power), 1);
    let decimal = |power: u32| (1_000_u128.pow(power), 1);
    Some(match unit {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => decimal(1),
        "M" => decimal(2),
        "G" => decimal(3),
        "T" => decimal(4),
        "P" => decimal(5),
        "E" => decimal(6),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_means_them() {
        for (text, amount) in [
            ("4", 4_000),
            ("3920m", 3_920),
            ("0.5", 500),
            (".5", 500),
            ("1.", 1_000),
            ("16Gi", (16 << 30) * 1_000),
            ("1.5Ki", 1_536_000),
            ("32656220Ki", 32_656_220 * 1_024_000),
            ("129e6", 129_000_000_000),
            ("129M", 129_000_000_000),
            ("1E3", 1_000_000),
            ("1E", 1_000_000_000_000_000_000_000),
            ("100n", 1),
            ("5e-1", 500),
            ("0", 0),
        ] {
            assert_eq!(thousandths(text), Some(amount), "{text}");
        }
        for text in ["", "Gi", "-1", "4 cores", "1.2.3", "1e99", "٣", "99999999999999999999999999999999999999999"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }
}
