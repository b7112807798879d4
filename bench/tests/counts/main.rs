//! Counts of the committed PTX hang together: lines sum up to the whole, work that does not depend
//! on a frame's length does not, and launches by themselves are not in it.

use std::path::Path;
use std::sync::Arc;

use warpwire_bench::counts::{self, Row};
use warpwire_virtual::{Direction, Module, Space, VirtualGpu};

fn gpu() -> Arc<VirtualGpu> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/kernels/warpwire.ptx");
    let text = std::fs::read_to_string(path).expect("is committed");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(VirtualGpu::new(module))
}

fn count(gpu: &Arc<VirtualGpu>, kernel: &str, over: &str, length: u32) -> Row {
    let row = counts::of(gpu, kernel, over, length).unwrap_or_else(|error| panic!("{error}"));
    let close = |sum: f64, whole: f64, what: &str| {
        let name = format!("{kernel} over {over}, {what}");
        assert!((sum - whole).abs() < 1e-6, "{name}: {sum} and {whole}");
    };
    let lines = || row.lines.iter();
    close(lines().map(|line| line.lanes).sum(), row.lanes, "lanes");
    close(lines().map(|line| line.warps).sum(), row.warps, "warps");
    let sectors = lines().map(|line| line.sectors).sum();
    close(sectors, row.global_sectors(), "sectors");
    close(row.classes.values().sum(), row.lanes, "classes");
    row
}

#[test]
fn receiving_reads_headers_only_and_sending_writes_frames() {
    let gpu = gpu();
    for (format, over) in [("mlx5", "mlx5"), ("memif_client", "memif client")] {
        let receive = format!("receive_count_{format}");
        let [short, long] = [64, 1500].map(|length| count(&gpu, &receive, over, length));
        assert!((short.lanes - long.lanes).abs() < 1.0, "{receive}");
        // A frame's first 64 bytes lie in two sectors, and a warp takes 32 instructions at once.
        assert!(short.global_sectors() >= 2.0 && short.warps * 32.0 >= short.lanes);
        let transmit = format!("transmit_{format}");
        let [short, long] = [64, 1500].map(|length| count(&gpu, &transmit, over, length));
        let stored = |row: &Row| row.bytes[&(Space::Global, Direction::Store)];
        let more = stored(&long) - stored(&short);
        assert!((1436.0..1600.0).contains(&more), "{transmit}: {more}");
    }
    let none = counts::of(&gpu, "receive_count_mlx5", "pigeons", 64);
    assert!(none.is_err_and(|error| error.contains("is not counted")));
}

#[test]
fn payload_of_messages_is_written_once_and_placed_once() {
    let gpu = gpu();
    for over in ["mlx5, asking", "mlx5, asked"] {
        let [short, long] = [8, 4096].map(|bytes| count(&gpu, "transport_mlx5", over, bytes));
        let stored = |row: &Row| row.bytes[&(Space::Global, Direction::Store)];
        let more = stored(&long) - stored(&short);
        assert!((4080.0..4200.0).contains(&more), "{over}: {more}");
        assert!(long.lanes > short.lanes && short.global_sectors() > 2.0);
    }
}
