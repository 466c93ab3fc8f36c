use std::collections::HashSet;

use super::*;

fn number(text: &str) -> Number {
    text.parse().unwrap()
}

#[test]
fn equality_is_terraforms() {
    for (a, b) in [
        ("8", "8.0"),
        ("1e3", "1000"),
        ("0.10", "1e-1"),
        ("-0", "0"),
        ("-0.0", "0e9"),
        ("18446744073709551616", "1.8446744073709551616e19"),
        ("1e1000000000", "10e999999999"),
        // All digits of the float 0.1: msgpack has one form for both.
        (
            "0.1",
            "0.1000000000000000055511151231257827021181583404541015625",
        ),
    ] {
        assert_eq!(number(a), number(b), "{a} {b}");
    }
    for (a, b) in [
        ("9007199254740993", "9007199254740992"),
        ("1", "-1"),
        ("18446744073709551615", "18446744073709551616"),
    ] {
        assert_ne!(number(a), number(b), "{a} {b}");
    }
}

#[test]
fn a_float_equals_the_decimal_that_it_is_written_as() {
    assert_eq!(Number::from_f64(0.1).unwrap(), number("0.1"));
    assert_eq!(Number::from_f64(3.39).unwrap(), number("3.39"));
    assert_ne!(Number::from_f64(0.1 + 0.2).unwrap(), number("0.3"));
    // Whole floats by their exact value: Terraform compares integers exactly.
    assert_eq!(
        Number::from_f64(1e23).unwrap(),
        number("99999999999999991611392")
    );
    assert_eq!(Number::from_f64(-0.0).unwrap(), Number::from(0));
    assert!(Number::from_f64(f64::NAN).is_err());
}

#[test]
fn order_goes_by_value() {
    let mut numbers = [
        number("1e400"),
        Number::from_f64(f64::INFINITY).unwrap(),
        number("-3"),
        number("0.05"),
        number("0"),
        number("-1e400"),
        number("18446744073709551615"),
        Number::from_f64(f64::NEG_INFINITY).unwrap(),
        number("12"),
        number("1e-400"),
        number("1.5"),
        number("9"),
        number("-0.5"),
    ];
    numbers.sort();
    let text: Vec<String> = numbers
        .iter()
        .map(|n| format!("{:e}", n.to_f64()))
        .collect();
    assert_eq!(
        text.join(" "),
        "-inf -inf -3e0 -5e-1 0e0 0e0 5e-2 1.5e0 9e0 1.2e1 1.8446744073709552e19 inf inf"
    );
    assert!(numbers[0] < numbers[1] && numbers[11] < numbers[12] && numbers[4] < numbers[5]);
}

#[test]
fn a_huge_exponent_costs_nothing() {
    for text in ["1e1000000000", "-1e-1000000000", "1.5E+999999999"] {
        let number = number(text);
        assert!(number.to_string().len() < 20, "{number}");
        assert_eq!(number.as_i64(), None);
        assert_eq!(number.as_i128(), None);
        assert_eq!(number.to_string().parse::<Number>().unwrap(), number);
    }
    assert!("1e1000000001".parse::<Number>().is_err());
    assert!("1e99999999999999999999".parse::<Number>().is_err());
}

#[test]
fn text_is_plain_decimal() {
    for (text, plain) in [
        ("1.5e-7", "0.00000015"),
        ("1E5", "100000"),
        ("+12.50", "12.5"),
        ("1e30", "1000000000000000000000000000000"),
        ("12345678901234567890.5", "12345678901234567890.5"),
        ("00.10", "0.1"),
        (".5", "0.5"),
        ("5.", "5"),
    ] {
        assert_eq!(number(text).to_string(), plain);
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for text in [
        "", "-", "+", ".", "e5", "1e", "1e+", "1_000", "0x10", "inf", "NaN", " 1", "1 ", "1.2.3",
        "--1", "1e5.5", "١", "1ee5",
    ] {
        assert!(text.parse::<Number>().is_err(), "{text:?}");
    }
}

#[test]
fn integers_come_out_as_they_went_in() {
    assert_eq!(Number::from(u64::MAX).as_u64(), Some(u64::MAX));
    assert_eq!(Number::from(u64::MAX).as_i64(), None);
    assert_eq!(number("-9223372036854775808").as_i64(), Some(i64::MIN));
    assert_eq!(number("-9223372036854775809").as_i64(), None);
    assert_eq!(
        number("-9223372036854775809").as_i128(),
        Some(-9_223_372_036_854_775_809)
    );
    assert_eq!(
        Number::from_f64(4_294_967_295.0).unwrap().as_u32(),
        Some(u32::MAX)
    );
    assert_eq!(number("4294967296").as_u32(), None);
    assert_eq!(number("1.5").as_i64(), None);
    assert_eq!(Number::from(-1).as_u64(), None);
}

#[test]
fn equal_numbers_are_one_in_a_set() {
    let set: HashSet<Number> = [
        number("0.1"),
        Number::from_f64(0.1).unwrap(),
        number("1e2"),
        100.into(),
    ]
    .into();
    assert_eq!(set.len(), 2);
}

#[test]
fn serde_json_reads_and_writes_numbers() {
    let read: Vec<Number> =
        serde_json::from_str("[1, -5, 18446744073709551615, 0.5, \"3.39\", 1e2]").unwrap();
    let expected = ["1", "-5", "18446744073709551615", "0.5", "3.39", "100"].map(number);
    assert_eq!(read, expected);
    let written = [
        number("3.39"),
        number("8"),
        number("1.5"),
        number("123456789012345678901234567890"),
    ];
    assert_eq!(
        serde_json::to_string(&written).unwrap(),
        "[3.39,8,1.5,\"123456789012345678901234567890\"]"
    );
    assert!(serde_json::from_str::<Number>("\"many\"").is_err());
    assert!(serde_json::from_str::<Number>("true").is_err());
}
