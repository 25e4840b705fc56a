// What the benches share, inside their module: a memory that answers in the next cycle, and a bus whose accesses are given:
// it checks their addresses and what is stored, answers, and waits. Prints the cycles from reset to `trap`, to what
// ends a program otherwise (`is_over`), or to an access beyond those given, and some of the data memory.
//
//     +image=FILE   words of memory from address 0 on, as $readmemh reads them
//     +bus=FILE     a line for each access beyond the memory: is a store, address, value, cycles to wait
localparam WORDS = 32768;
localparam LAST_CYCLE = 10_000_000;

reg [31:0] memory [0:WORDS-1];
string image, accesses;
integer bus, fields;
integer cycles = 0, waits = 0;
integer given_store;
reg [31:0] given_address, given_value, mask, answer;

initial begin
    for (int i = 0; i < WORDS; i++) memory[i] = 0;
    bus = 0;
    if (!$value$plusargs("image=%s", image)) $fatal(1, "no +image");
    $readmemh(image, memory);
    if ($value$plusargs("bus=%s", accesses)) bus = $fopen(accesses, "r");
    #1 resetn = 0;
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

// Gives `answer`, and cycles to wait for it.
task access(input is_store, input [31:0] address, input [31:0] value, input [3:0] strobes);
    mask = {{8{strobes[3]}}, {8{strobes[2]}}, {8{strobes[1]}}, {8{strobes[0]}}};
    if (address < WORDS * 4) begin
        answer = memory[address / 4];
        if (is_store) memory[address / 4] = answer & ~mask | value & mask;
    end else begin
        fields = bus == 0 ? 0 : $fscanf(bus, "%d %h %h %d", given_store, given_address, given_value, waits);
        if (fields != 4) is_over = 1;
        else if ((given_store != 0) != is_store || given_address != address)
            $fatal(1, "%h instead of %h", address, given_address);
        else if (is_store && ((given_value ^ value) & mask) != 0)
            $fatal(1, "%h stored at %h instead of %h", value, address, given_value);
        answer = given_value;
    end
endtask
