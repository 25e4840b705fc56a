// PicoRV32 at the memory and the bus of bench.svh. It ends at the trap.
module bench;
    reg clk = 0;
    reg is_over = 0;
    reg resetn = 1;
    wire trap;
    wire mem_valid, mem_la_read, mem_la_write;
    wire [31:0] mem_la_addr, mem_la_wdata;
    wire [3:0] mem_la_wstrb;
    reg mem_ready = 1;
    reg [31:0] mem_rdata;

    picorv32 #(.BARREL_SHIFTER(1), .REGS_INIT_ZERO(1)) core (
        .clk, .resetn, .trap, .mem_valid, .mem_ready, .mem_rdata,
        .mem_la_read, .mem_la_write, .mem_la_addr, .mem_la_wdata, .mem_la_wstrb,
        .pcpi_wr(1'b0), .pcpi_rd(32'b0), .pcpi_wait(1'b0), .pcpi_ready(1'b0), .irq(32'b0)
    );

    `include "bench.svh"

    always @(posedge clk) if (resetn) begin
        if (waits > 0) begin
            waits = waits - 1;
            if (waits == 0) mem_ready <= 1;
        end
        if (mem_la_read || mem_la_write) begin
            access(mem_la_write, mem_la_addr, mem_la_wdata, mem_la_wstrb);
            mem_rdata <= answer;
            if (waits > 0) mem_ready <= 0;
        end
    end
endmodule
