// Ibex at memories that answer in the next cycle, and at a bus whose accesses are given: as picorv32.sv has them. It ends
// at an exception, or at an access beyond those given.
module bench;
    localparam WORDS = 32768;
    localparam LAST_CYCLE = 10_000_000;
    // Where the core begins, 128 bytes before the program at address 0, and where exceptions lead.
    localparam BOOT = 32'hffff_ff80, TRAP = 32'hffff_ff00, TO_PROGRAM = 32'h0800_006f;

    reg clk = 0;
    reg is_over = 0;
    reg resetn = 1;
    wire instr_req, data_req, data_we;
    wire [31:0] instr_addr, data_addr, data_wdata;
    wire [3:0] data_be;
    reg instr_rvalid = 0, data_rvalid = 0;
    reg [31:0] instr_rdata, data_rdata;
    integer waits = 0;

    ibex_top #(.RV32M(ibex_pkg::RV32MNone)) core (
        .clk_i(clk), .rst_ni(resetn), .test_en_i(1'b0), .ram_cfg_i('0), .hart_id_i('0), .boot_addr_i(TRAP),
        .instr_req_o(instr_req), .instr_gnt_i(instr_req), .instr_rvalid_i(instr_rvalid), .instr_addr_o(instr_addr),
        .instr_rdata_i(instr_rdata), .instr_rdata_intg_i('0), .instr_err_i(1'b0),
        .data_req_o(data_req), .data_gnt_i(data_req), .data_rvalid_i(data_rvalid), .data_we_o(data_we),
        .data_be_o(data_be), .data_addr_o(data_addr), .data_wdata_o(data_wdata), .data_wdata_intg_o(),
        .data_rdata_i(data_rdata), .data_rdata_intg_i('0), .data_err_i(1'b0),
        .irq_software_i(1'b0), .irq_timer_i(1'b0), .irq_external_i(1'b0), .irq_fast_i('0), .irq_nm_i(1'b0),
        .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .scramble_req_o(),
        .debug_req_i(1'b0), .crash_dump_o(), .double_fault_seen_o(), .fetch_enable_i(ibex_pkg::IbexMuBiOn),
        .alert_minor_o(), .alert_major_internal_o(), .alert_major_bus_o(), .core_sleep_o(), .scan_rst_ni(1'b1)
    );

    reg [31:0] memory [0:WORDS-1];
    string image, accesses;
    integer bus, fields, cycles;
    integer given_store;
    reg [31:0] given_address, given_value, mask;

    initial begin
        for (int i = 0; i < WORDS; i++) memory[i] = 0;
        bus = 0;
        if (!$value$plusargs("image=%s", image)) $fatal(1, "no +image");
        $readmemh(image, memory);
        if ($value$plusargs("bus=%s", accesses)) bus = $fopen(accesses, "r");
        cycles = 0;
        #1 resetn = 0;
        repeat (10) begin #1 clk = 1; #1 clk = 0; end
        resetn = 1;
        while (!is_over && cycles < LAST_CYCLE) begin
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
        instr_rvalid <= instr_req;
        if (instr_req && instr_addr == TRAP) is_over = 1;
        instr_rdata <= instr_addr >= BOOT ? TO_PROGRAM : memory[instr_addr / 4 % WORDS];
        data_rvalid <= 0;
        if (waits > 0) begin
            waits = waits - 1;
            if (waits == 0) data_rvalid <= 1;
        end
        if (data_req) begin
            mask = {{8{data_be[3]}}, {8{data_be[2]}}, {8{data_be[1]}}, {8{data_be[0]}}};
            data_rvalid <= 1;
            if (data_addr < WORDS * 4) begin
                if (!data_we) data_rdata <= memory[data_addr / 4];
                else memory[data_addr / 4] = memory[data_addr / 4] & ~mask | data_wdata & mask;
            end else begin
                fields = bus == 0 ? 0 : $fscanf(bus, "%d %h %h %d", given_store, given_address, given_value, waits);
                if (fields != 4) is_over = 1;
                else if ((given_store != 0) != data_we || given_address != data_addr)
                    $fatal(1, "%h instead of %h", data_addr, given_address);
                else if (data_we && ((given_value ^ data_wdata) & mask) != 0)
                    $fatal(1, "%h stored at %h instead of %h", data_wdata, data_addr, given_value);
                data_rdata <= given_value;
                if (waits > 0) data_rvalid <= 0;
            end
        end
    end
endmodule
