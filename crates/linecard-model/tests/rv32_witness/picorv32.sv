// PicoRV32 at memories that answer in the next cycle, and at a bus whose accesses are given: it checks their
// addresses and what is stored, answers, and waits. Prints the cycles from reset to the
// trap that ends a program, or to an access beyond those given, and some of the data memory.
//
//     +image=FILE   words of memory from address 0 on, as $readmemh reads them
//     +bus=FILE     a line for each access beyond the memory: is a store, address, value, cycles to wait
module bench;
    localparam WORDS = 32768;
    localparam LAST_CYCLE = 10_000_000;

    reg clk = 0;
    reg is_over = 0;
    reg resetn = 0;
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

    reg [31:0] memory [0:WORDS-1];
    string image, accesses;
    integer bus, fields, waits, cycles;
    integer given_store;
    reg [31:0] given_address, given_value, mask;

    initial begin
        for (int i = 0; i < WORDS; i++) memory[i] = 0;
        bus = 0;
        if (!$value$plusargs("image=%s", image)) $fatal(1, "no +image");
        $readmemh(image, memory);
        if ($value$plusargs("bus=%s", accesses)) bus = $fopen(accesses, "r");
        cycles = 0;
        waits = 0;
        repeat (10) begin #1 clk = 1; #1 clk = 0; end
        resetn = 1;
        while (!trap && !is_over && cycles < LAST_CYCLE) begin
            #1 clk = 1;
            cycles++;
            #1 clk = 0;
        end
        // Another access would have been one too few.
        fields = bus == 0 ? 0 : $fscanf(bus, "%d", given_store);
        if (fields == 1) $display("accesses are left");
        $display("cycles %0d", cycles);
        for (int i = 0; i < 64; i++) $display("%08x", memory['h10000 / 4 + i]);
        $finish;
    end

    always @(posedge clk) if (resetn) begin
        if (waits > 0) begin
            waits = waits - 1;
            if (waits == 0) mem_ready <= 1;
        end
        if (mem_la_read || mem_la_write) begin
            mask = {{8{mem_la_wstrb[3]}}, {8{mem_la_wstrb[2]}}, {8{mem_la_wstrb[1]}}, {8{mem_la_wstrb[0]}}};
            if (mem_la_addr < WORDS * 4) begin
                if (mem_la_read) mem_rdata <= memory[mem_la_addr / 4];
                else memory[mem_la_addr / 4] = memory[mem_la_addr / 4] & ~mask | mem_la_wdata & mask;
            end else begin
                fields = bus == 0 ? 0 : $fscanf(bus, "%d %h %h %d", given_store, given_address, given_value, waits);
                if (fields != 4) is_over = 1;
                else if ((given_store != 0) != mem_la_write || given_address != mem_la_addr)
                    $fatal(1, "%h instead of %h", mem_la_addr, given_address);
                else if (mem_la_write && ((given_value ^ mem_la_wdata) & mask) != 0)
                    $fatal(1, "%h stored at %h instead of %h", mem_la_wdata, mem_la_addr, given_value);
                mem_rdata <= given_value;
                if (waits > 0) mem_ready <= 0;
            end
        end
    end
endmodule
