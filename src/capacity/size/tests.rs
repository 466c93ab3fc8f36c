use super::*;

#[test]
fn cpu_is_read_in_cores_or_thousandths() {
    for (text, millis, shown) in [
        ("4", 4000, "4"),
        ("0.5", 500, "500m"),
        ("500m", 500, "500m"),
        ("1.250", 1250, "1250m"),
        (" 2 ", 2000, "2"),
        ("2000m", 2000, "2"),
        ("0.001", 1, "1m"),
    ] {
        let cpu = Cpu::parse(text).unwrap();
        assert_eq!(
            (cpu.millis(), cpu.to_string().as_str()),
            (millis, shown),
            "{text}"
        );
    }
    assert_eq!(Cpu::parse("1.5").unwrap().nanos(), 1_500_000_000);
    for text in [
        "",
        "0",
        "0m",
        "0.0",
        "-1",
        "+1",
        "1e3",
        ".5",
        "1.",
        "0.0001",
        "0.0005",
        "m",
        "4 cores",
        "1.5m",
        "99999999999999999999",
        "１",
        "4Gi",
    ] {
        assert!(Cpu::parse(text).is_err(), "{text}");
    }
}

#[test]
fn g3_shm_has_to_be_smaller_than_memory() {
    assert_eq!(check_memory(Some(32768), Some(8192)), Ok(()));
    assert_eq!(check_memory(Some(8193), Some(8192)), Ok(()));
    for memory_mib in [8192, 8191, 1] {
        assert_eq!(
            check_memory(Some(memory_mib), Some(8192)),
            Err(SizeError::ShmTooLarge {
                shm_mib: 8192,
                memory_mib
            })
        );
    }
    assert_eq!(check_memory(None, Some(8192)), Ok(()));
    assert_eq!(
        check_memory(Some(0), None),
        Err(SizeError::Memory { memory_mib: 0 })
    );
    assert_eq!(
        check_memory(None, Some(0)),
        Err(SizeError::Shm { shm_mib: 0 })
    );
    let text = check_memory(Some(4096), Some(8192))
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("8192 MiB")
            && text.contains("4096 MiB")
            && text.contains("Shared memory counts toward memory"),
        "{text}"
    );
}
