// Ibex at the memory and the bus of bench.svh. It ends at an exception.
module bench;
    // Where the core begins, 128 bytes before the program at address 0, and where exceptions lead.
    localparam BOOT = 32'hffff_ff80, TRAP = 32'hffff_ff00, TO_PROGRAM = 32'h0800_006f;

    reg clk = 0;
    reg is_over = 0;
    reg resetn = 1;
    wire trap = 0;
    wire instr_req, data_req, data_we;
    wire [31:0] instr_addr, data_addr, data_wdata;
    wire [3:0] data_be;
    reg instr_rvalid = 0, data_rvalid = 0;
    reg [31:0] instr_rdata, data_rdata;

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

    `include "bench.svh"

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
            access(data_we, data_addr, data_wdata, data_be);
            data_rdata <= answer;
            data_rvalid <= waits == 0;
        end
    end
endmodule
